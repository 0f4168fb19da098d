"""Users in a swarm: peers with accounts, whose feeds may be devices of one identity, and what must hold.

A ledger has what users have truly said about devices; false messages are not in it. It says who is a device
of which identity once all that was said has come.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from base.files import memory_directory
from ssb.applications.fusion import ENTRUST, FUSION, Consent, Fusion, Fusions, key_in, proof_content
from ssb.daemon.account import Account
from ssb.daemon.commands import CommandError, Commands
from ssb.daemon.local_peer import LocalPeer
from ssb.graph import CONTACT
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.options import PORT, PeerOptions
from ssb.peer.program import PeerEvent
from ssb.store.feeds import StoreError
from ssb.transport.address import PeerAddress
from testbed.verify.kit.outcome import Violation
from testbed.verify.kit.story import Step
from testbed.verify.swarms.members import Member
from testbed.verify.swarms.story import Swarm

USER_STEPS = frozenset({"say", "name", "befriend", "invite", "join", "remove", "intrude"})


class UserMember(Member):
    """The peer of a user."""

    def __init__(self, local: LocalPeer, look: Callable[[int], None]) -> None:
        super().__init__(local.peer)
        self.local = self._program = local
        self._visits = []  # the program sees to them
        self._look = look

    def watch(self, now: int) -> None:
        """See Member; the program acts on what was done to its peer."""
        self.local.wake(now)
        self._look(now)

    def news(self) -> list[PeerEvent]:
        return self.local.take_events()

    def _follow_up(self, now: int) -> None:
        self._look(now)


class _Said(NamedTuple):
    """What was truly said about a fusion: its messages, invitations, consents, members, and ends."""

    founder: str
    messages: set[str]
    invites: set[tuple[str, str]]
    consents: dict[str, str]  # feed -> message
    members: set[str]
    ends: set[str]

    @property
    def devices(self) -> set[str]:
        return set() if self.ends else self.members


class _Ledger:
    """What all users have said."""

    def __init__(self) -> None:
        self.false: set[str] = set()  # messages
        self.said: dict[str, _Said] = {}  # by the message that has begun a fusion
        self.follows: defaultdict[str, set[str]] = defaultdict(set)
        # What feeds call themselves, with the number of the message.
        self.names: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)

    def add(self, message: Message) -> None:
        """Add a message of a user."""
        content, author = message.content, message.author
        if not isinstance(content, dict) or message.id in self.false:
            return
        if content["type"] == CONTACT:
            self.follows[author].add(content["contact"])
        elif content["type"] == "about":
            self.names[author].append((message.sequence, content["name"]))
        elif content["type"] == FUSION:
            self._add_fusion(message.id, author, content)

    def _add_fusion(self, id_: str, author: str, content: dict[str, Any]) -> None:
        if content.get("subtype") == "fusion/init":
            self.said[id_] = _Said(author, {id_}, set(), {}, {author}, set())
            return
        said = self.said[content["tangles"][FUSION]["root"]]
        said.messages.add(id_)
        match content.get("subtype"):
            case "fusion/invite":
                said.invites.update((author, feed) for feed in content["invited"])
            case "fusion/consent":
                said.consents[author] = id_
            case "fusion/proof-of-key":
                said.members.add(author)
            case None:
                said.ends.add(author)

    def name(self, feed: str, last: int) -> str | None:
        """Return what a feed has called itself up to its message of a number; None for nothing."""
        return next((name for sequence, name in reversed(self.names[feed]) if sequence <= last), None)

    def identities(self) -> dict[str, frozenset[str]]:
        """Return the devices of each feed that is not alone."""
        found: dict[str, frozenset[str]] = {}
        for said in self.said.values():
            together = said.devices.union(*(found.get(feed, ()) for feed in said.devices))
            if len(together) > 1:
                found |= dict.fromkeys(together, frozenset(together))
        return found


class Users:
    """The users of a story.

    Args:
        swarm: the story.
        identities: those of all peers.
        host: returns the host of a peer.
        coverage: counts what has happened.

    Attributes:
        accounts: those that are open.
    """

    def __init__(
        self,
        swarm: Swarm,
        identities: Mapping[str, Identity],
        host: Callable[[str], str],
        coverage: Counter[str],
    ) -> None:
        self.accounts: dict[str, Account] = {}
        self._identities = identities
        self._host = host
        self._coverage = coverage
        self._ledger = _Ledger()
        self._fusing: dict[str, dict[str, Message]] = {name: {} for name in swarm.users}
        self._random = {name: Random(f"{swarm.seed} {name} keys") for name in swarm.users}
        self._place = TemporaryDirectory(dir=memory_directory()) if swarm.users else None

    def close(self) -> None:
        """Close and delete all accounts."""
        for account in self.accounts.values():
            account.close()
        if self._place is not None:
            self._place.cleanup()

    def start(
        self, name: str, options: PeerOptions, random: Random, now: int, *, forgets: bool = False
    ) -> LocalPeer:
        """Return the peer of a user that starts, or starts anew; it may have lost others' positions."""
        assert self._place is not None
        path = Path(self._place.name) / name
        if name in self.accounts:
            self.accounts[name].close()
            for clock in (path / "ebt").iterdir() if forgets else ():
                clock.unlink()
        is_new = name not in self.accounts
        account = Account(path, identity=self._identities[name], random_bytes=self._random[name].randbytes)
        self.accounts[name] = account
        if is_new:
            account.own.settle()  # nobody has used the identity elsewhere
        return LocalPeer(account, options, random, 0.0, now)

    def do(self, step: Step, local: LocalPeer, now: int) -> None:
        """Let a user give a command; one that is refused has no effect."""
        name, *others = step.what
        me, feeds = self._ref(name), [*map(self._ref, others)]
        address = PeerAddress(self._host(name), PORT, me)
        answer = Commands(self.accounts[name], lambda: now / 1e6, (local, lambda: now), address).answer
        try:
            match step.do:
                case "say":
                    answer(("publish",), [{"type": "post", "text": name}])
                case "name":
                    answer(("publish",), [{"type": "about", "about": me, "name": f"{name} at {now}"}])
                case "befriend":
                    answer(("publish",), [{"type": CONTACT, "contact": feeds[0], "following": True}])
                case "invite":
                    answer(("devices", "invite"), [feeds[0]])
                case "join":
                    answer(("devices", "join"), [feeds[0], False])
                case "remove":
                    answer(("devices", "remove"), [feeds[0], "lost"])
                case "intrude":
                    self._intrude(name, others[0], lambda content: answer(("publish",), [dict(content)]))
            self._coverage[f"{step.do} done"] += 1
        except (CommandError, StoreError):
            self._coverage["command refused"] += 1

    def _ref(self, name: str) -> str:
        return self._identities[name].ref

    def _intrude(self, name: str, other: str, publish: Callable[[Mapping[str, Any]], Any]) -> None:
        """Let a user write false messages about the newest identity of another one.

        It invites itself, consents, and proves that it has the key: another one; or the true one, which a
        device has given away, if nobody has invited it. And it ends the identity.
        """
        me = self._ref(name)
        roots = [root for root, said in self._ledger.said.items() if self._ref(other) in said.members]
        if not roots or me in self._ledger.said[roots[-1]].members:
            return
        root = roots[-1]
        is_invited = any(feed == me for _, feed in self._ledger.said[root].invites)
        known = self.accounts[name].views.fusions.get(root)
        fusion = self.accounts[other].views.fusions.get(root)
        heads = [root] if known is None else known.previous(me)

        def write(kind: str | None, previous: list[str], **more: Any) -> str:
            subtype = {} if kind is None else {"subtype": f"fusion/{kind}"}
            tangles = {FUSION: {"root": root, "previous": previous}}
            id_: str = publish({"type": FUSION, **subtype, "tangles": tangles, **more})["key"]
            self._ledger.false.add(id_)
            return id_

        invite = write("invite", [root], invited={me: 1})
        write("consent", [invite], consented={me: 1})
        consent = Consent(me, write("consent", heads, consented={me: 1}))
        key = None if is_invited or fusion is None else self._key(other, fusion)
        if fusion is not None:
            key = key or Identity.from_seed(self._random[name].randbytes(32))
            self._ledger.false.add(publish(proof_content(fusion, key, consent))["key"])
        write("proof-of-key", [consent.message], members={me: 1}, consentId=consent.message, proofOfKey="")
        write(None, heads, tombstone={"set": {"date": 0, "reason": "false"}})
        write(None, [root], tombstone={"set": {"date": 0, "reason": "false"}})

    def _key(self, name: str, fusion: Fusion) -> Identity | None:
        found = (key_in(each.content, fusion) for each in self.accounts[name].groups.direct(ENTRUST))
        return next((key for key in found if key is not None), None)

    # Invariants

    def came(self, name: str, message: Message) -> bool:
        """Take in a message that a user's peer has stored; return whether it is about devices."""
        if message.author == self._ref(name):
            self._ledger.add(message)
        is_about = isinstance(message.content, dict) and message.content.get("type") == FUSION
        if is_about:
            self._fusing[name][message.id] = message
        return is_about

    def check(self, name: str, wanted: Collection[str]) -> None:
        """Check the devices that a user's peer sees, and what it replicates, after news of devices."""
        fusions, here = self.accounts[name].views.fusions, self._fusing[name]
        again = Fusions()
        for id_ in sorted(here):
            again.add(here[id_])
        if again.identities() != fusions.identities():
            raise Violation(
                "same devices", name, "sees other devices than those of the same messages, sorted"
            )
        for root, said in self._ledger.said.items():
            fusion = fusions.get(root)
            if fusion is None:
                continue
            if not fusion.members <= said.members:
                raise Violation(
                    "no strangers", name, f"has {_few(fusion.members - said.members)} as a device"
                )
            if fusion.is_ended and not said.ends & said.members:
                raise Violation("no strangers", name, "sees the end of an identity that none of it has ended")
            if said.messages <= here.keys() and fusion.members != said.devices:
                raise Violation(
                    "devices", name, f"lacks or has {_few(fusion.members ^ said.devices)} as a device"
                )
        said_all = set[str]().union(*(said.messages for said in self._ledger.said.values()))
        if said_all <= here.keys() and fusions.identities() != self._ledger.identities():
            raise Violation("devices", name, "sees other identities than there are")
        self._check_follows(name, wanted)

    def _check_follows(self, name: str, wanted: Collection[str]) -> None:
        """Check that a peer replicates what its user follows, with a feed all devices of its identity, and
        those that a replicated one has invited."""
        account = self.accounts[name]
        fusions, replicated = account.views.fusions, account.graph.replicated()
        for feed in sorted(replicated | self._ledger.follows[self._ref(name)]):
            invites = [fusion.invites for fusion in fusions.concerning(feed)]
            invited = {other for pairs in invites for by, other in pairs if by == feed}
            apart = {*fusions.devices(feed)} - replicated | invited.difference(wanted)
            if apart:
                raise Violation("followed", name, f"does not replicate {_few(apart)}, devices of {feed[:5]}")

    def check_names(self, name: str) -> None:
        """Check that all devices have one name: that of the first one, or else of another."""
        account = self.accounts[name]
        namer, tips = account.views.namer(), account.feeds.tips()
        for devices in {frozenset(account.views.fusions.devices(feed)) for feed in self._refs()}:
            own = {feed: self._ledger.name(feed, tips.get(feed, 0)) for feed in devices}
            founders = {said.founder for said in self._ledger.said.values() if said.devices & devices}
            first = {own[feed] for feed in devices & founders} - {None}
            may_be = first or {*own.values()} - {None} or {None}
            found = {namer(feed) for feed in devices}
            if len(found) > 1 or not found <= may_be:
                raise Violation("names", name, f"calls the devices of an identity {sorted(map(str, found))}")
            self._coverage["one name" if len(devices) > 1 else "alone"] += 1

    def _refs(self) -> Iterator[str]:
        return map(self._ref, self.accounts)

    def follows(self, name: str, feed: str) -> bool:
        """Return whether a user follows a feed."""
        return self.accounts[name].graph.is_following(self._ref(name), feed)

    def tip(self, at: str, of: str) -> int:
        """Return the number of messages of a user's feed at another one."""
        return self.accounts[at].feeds.tips().get(self._ref(of), 0)

    def waiting(self) -> Violation | None:
        """Return a feed that has consented, and is no device though all has come that is needed for it."""
        names = {self._ref(name): name for name in self.accounts}
        for said in self._ledger.said.values():
            for feed, consent in said.consents.items() if not said.ends else ():
                for by in said.members if feed not in said.members else ():
                    one, other = names[by], names[feed]
                    has_come = consent in self._fusing[one] and self.tip(other, one) == self.tip(one, one)
                    if (by, feed) in said.invites and has_come:
                        return Violation("joins", other, f"has consented, and is no device of {by[:5]}")
        return None


def _few(feeds: Any) -> str:
    return " ".join(sorted(feed[:5] for feed in feeds))
