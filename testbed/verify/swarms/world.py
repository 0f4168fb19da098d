"""Plays a story of peers, and checks the invariants after every event."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from hashlib import sha256
from random import Random
from typing import Any

from base.endpoint import Program, StreamPort
from base.units import SECOND
from ssb.ending import end_of
from ssb.keys import Identity
from ssb.message import Message, proves_fork
from ssb.peer.options import PORT, PeerOptions
from ssb.peer.peer import Peer
from ssb.peer.scheduler import SchedulerOptions
from ssb.replication.loose import Loose
from ssb.replication.session import Session
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from testbed.scenario.sections import TopologySpec
from testbed.verify.kit.changes import CHANGES
from testbed.verify.kit.family import Family
from testbed.verify.kit.outcome import OutcomeOptions, Violation
from testbed.verify.kit.shrink import emulated
from testbed.verify.kit.story import Step
from testbed.verify.kit.world import World, reached
from testbed.verify.swarms.holes import Holes
from testbed.verify.swarms.members import (
    Babbler,
    CountedLoose,
    Deaf,
    FalseFeeds,
    FalseLoose,
    Liar,
    Member,
    OldFeeds,
    Replayer,
)
from testbed.verify.swarms.rooms import ROOM_STEPS, Rooms
from testbed.verify.swarms.story import Swarm, author, make_swarm, messages
from testbed.verify.swarms.users import USER_STEPS, UserMember, Users
from topologies.emulator.network import EmulatedNetwork

CATCH_UP_NS = 600 * SECOND
"""Emulated TCP waits for up to a minute after several losses, and a peer calls again after a pause."""
_LEAVE_NS = 660 * SECOND
"""A room closes a connection that says nothing for ten minutes, as of a peer that was killed."""
_QUIET = 20 * SECOND
_STAY = 90 * SECOND
"""Longer than quiet friends wait to ask each other for a sign of life."""
_MOST_HEARD = 10
"""A want is told again when it has come nearer, twice at most, or begins anew. The rest are answers."""
_CONNECTIONS = 12
_HANDSHAKES = 4
_OPTIONS = PeerOptions(
    connections=_CONNECTIONS,
    handshakes=_HANDSHAKES,
    scheduler=SchedulerOptions(first_pause=SECOND, last_pause=8 * SECOND),
)


class _Watched(Member):
    """An honest peer."""

    def __init__(self, peer: Peer, look: Callable[[int], None]) -> None:
        super().__init__(peer)
        self._check_peer = look

    def watch(self, now: int) -> None:
        self._check_peer(now)


class _World(World[Swarm]):
    def __init__(self, swarm: Swarm, wanted: OutcomeOptions) -> None:
        super().__init__(swarm, wanted)
        self.topology = TopologySpec(links=swarm.links).build()
        self._identities = {
            peer: Identity.from_seed(sha256(f"{swarm.seed} {peer}".encode()).digest()) for peer in swarm.peers
        }
        self._users = Users(swarm, self._identities, self.topology.address, self.coverage)
        self._stores: dict[str, Any] = {peer: self._store(peer) for peer in swarm.peers}
        self._holes = Holes(swarm, self._stores)
        refs = {peer: identity.ref for peer, identity in self._identities.items()}
        self._rooms = Rooms(
            swarm, refs, self.topology.address, lambda: self.now, self._users.follows, self.coverage
        )
        self._clocks: dict[str, dict[str, dict[str, int]]] = {peer: {} for peer in swarm.peers}
        self._wanted = {peer: {self._key(feed) for feed in swarm.follows[peer]} for peer in swarm.peers}
        self._ever = {peer: set(wanted) for peer, wanted in self._wanted.items()}
        self._met: Counter[tuple[str, str]] = Counter()
        self._written: dict[tuple[str, int], int] = defaultdict(int)
        self._blocked: dict[tuple[str, str], int] = {}
        self._members: dict[str, Any] = {}
        self._has_wants = any(step.do == "want" for step in swarm.steps)
        self._sought: dict[str, dict[str, tuple[int, int]]] = {peer: {} for peer in swarm.peers}
        self._texts = {
            self._key(feed): [
                [message.text for message in self._messages(feed, branch)] for branch in range(len(writers))
            ]
            for feed, writers in swarm.feeds.items()
        }
        self._texts |= {self._identities[user].ref: [[]] for user in swarm.users}
        for peer in swarm.peers:
            self._members[peer] = self._member(peer, 0)
        for room in swarm.rooms:
            self._members[room] = self._rooms.start(room, _OPTIONS, 0)
        programs = {name: [Program(each, {1: StreamPort(PORT)})] for name, each in self._members.items()}
        self.network = EmulatedNetwork(self.topology, programs, seed=swarm.seed, capture=None)
        self.schedule()

    def play(self) -> None:
        try:
            self.network.run(self.story.last)
            self.catch_up(self.now, self._missing, CATCH_UP_NS + self._rooms.patience)
            self._check_stores()
            self._holes.count(self.coverage)
            self._check_silence()
            self._check_stay()
            self._empty_rooms()
        finally:
            self._users.close()

    # Peers

    def _store(self, peer: str) -> MemoryFeeds:
        kind = self.story.hostile.get(peer)
        if kind is not None:
            return FalseFeeds(kind, Random(f"{self.story.seed} {peer}"))
        return OldFeeds() if peer in self.story.old else MemoryFeeds()

    def _key(self, feed: int) -> str:
        return author(feed).ref

    def _messages(self, feed: int, branch: int = 0) -> tuple[Message, ...]:
        if feed in self._holes.logs:
            return self._holes.logs[feed]
        return messages(feed, branch, self.story.ends.get(feed, ()))

    def _member(self, name: str, now: int, *, forgets: bool = False) -> Any:
        """Return the program of a peer that starts, or starts anew."""
        if name in self.story.rooms:
            return self._rooms.start(name, _OPTIONS, now)
        made = self._made(name, now, forgets=forgets)
        if made.peer is not None:
            self._rooms.enter_all(name, made, now)
        return made

    def _made(self, name: str, now: int, *, forgets: bool) -> Any:
        swarm = self.story
        random = Random(f"{swarm.seed} {name} {now}")
        kind = swarm.hostile.get(name)
        others = [(self.topology.address(peer), PORT) for peer in swarm.columns if peer != name]
        if kind in ("stalls", "babbles"):
            return Babbler(others, random, is_silent=kind == "stalls")
        options = _OPTIONS._replace(encrypts=swarm.encrypts)
        if name in swarm.users:
            local = self._users.start(name, options, random, now, forgets=forgets)
            peer = local.peer
            self._stores[name] = self._users.accounts[name].feeds
            peer.want_all(sorted(self._wanted[name]), now)
        else:
            peer = Peer(
                self._identities[name],
                self._stores[name],
                MemoryClocks(self._clocks[name]),
                sorted(self._wanted[name]),
                options,
                random,
                blobs=self._holes.blobs(name),
                loose=self._loose(name, random) if self._has_wants else None,
                **self._rooms.arguments(name),
            )
        for feed, blocked in self._blocked:
            peer.replication.hide(feed, self._identities[blocked].ref, now)
        for caller, called in swarm.calls:
            if caller == name:
                address = (self.topology.address(called), PORT)
                peer.add(self._identities[called].ref, address, now, is_kept=True)
        if name in swarm.users:
            return UserMember(local, lambda time: self._check_peer(name, time))
        if kind is None:
            return _Watched(peer, lambda time: self._check_peer(name, time))
        return {"takes nothing": Deaf, "replays": Replayer, "lies": Liar}.get(kind, Member)(peer)

    def _loose(self, name: str, random: Random) -> Loose:
        """Return a peer's single messages; its user repeats the wants of before a restart."""
        store = self._stores[name]
        if self.story.hostile.get(name) in ("forges", "lies"):
            return FalseLoose(store, [m for feed in self.story.feeds for m in self._messages(feed)], random)
        loose = CountedLoose(store)
        for id_ in self._sought[name]:
            loose.want(id_)
        return loose

    # Steps

    def do(self, step: Step) -> None:
        if step.do in ("cut", "heal"):
            self.set_link(*step.what, up=step.do == "heal")
        elif step.do in ("restart", "forget"):
            (name,) = step.what
            if step.do == "forget":
                self._clocks[name].clear()
            self._members[name] = self._member(name, self.now, forgets=step.do == "forget")
            self.network.replace(name, [Program(self._members[name], {1: StreamPort(PORT)})])
        elif step.do == "want":
            self._want_message(*step.what)
        elif step.do in USER_STEPS:
            member = self._members[step.what[0]]
            self._users.do(step, member.local, self.now)
            member.watch(self.now)
            self.network.settle(step.what[0])
        elif step.do in ROOM_STEPS:
            name, room = step.what
            if self._members[name].peer is not None:
                self._rooms.do(step.do, name, room, self._members[name], self.now)
                self._members[name].watch(self.now)
                self.network.settle(name)
        elif step.do in ("drop", "fetch"):
            self._do_with_content(step.do, *step.what)
        else:
            self._do_with_feed(step, self.now)

    def _want_message(self, name: str, feed: int, number: int) -> None:
        id_ = self._messages(feed)[number - 1].id
        self._sought[name][id_] = feed, number
        peer = self._members[name].peer
        peer.services.loose.want(id_)
        peer.connections.update(self.now)
        self._members[name].watch(self.now)
        self.network.settle(name)

    def _do_with_content(self, do: str, name: str, feed: int, number: int) -> None:
        peer = self._members[name].peer
        if do == "fetch":
            peer.services.blobs.want(self._holes.fetch(name, feed, number))
        elif self._holes.drop(name, feed, number):
            peer.services.blobs.update_contents()
        peer.connections.update(self.now)
        self._members[name].watch(self.now)
        self.network.settle(name)

    def _do_with_feed(self, step: Step, now: int) -> None:
        if step.do == "block":
            feed, name = step.what
            written = max(self._written[writer, feed] for writer in self.story.feeds[feed])
            self._blocked[self._key(feed), name] = written
            for member in self._members.values():
                if member.peer is not None:
                    member.peer.replication.hide(self._key(feed), self._identities[name].ref, now)
            for each in self.story.peers:
                self.network.settle(each)
            return
        name, feed = step.what
        member, key = self._members[name], self._key(feed)
        if member.peer is None:
            return
        if step.do == "write":
            branch = self.story.feeds[feed].index(name)
            written = self._written[name, feed]
            if written == len(self._messages(feed, branch)) or self._stores[name].is_complete(key):
                return
            self._written[name, feed] += 1
            if key in self._stores[name].forks() or self._stores[name].tips().get(key, 0) != written:
                return  # it knows the other branch
            if feed in self._holes.logs:
                self._holes.write(name, feed, written + 1, member.peer.services.blobs)
            member.peer.append([self._messages(feed, branch)[written]], now)
        elif step.do == "follow":
            self._wanted[name].add(key)
            self._ever[name].add(key)
            member.peer.want(key, now)
        else:
            self._wanted[name].discard(key)
            member.peer.unwant(key, now)
        member.watch(now)
        self.network.settle(name)

    # Invariants

    def _check_peer(self, name: str, now: int) -> None:
        """Check an honest peer's announcements and store."""
        member = self._members[name]
        self._ever[name] |= {*self._wants(name)}
        has_news_of_devices = False
        for event in member.news():
            self.coverage[event.event] += 1
            self._met[name, event.remote] += event.event == "connected"
            self.record(f"{now} {name} {event.event} {event.detail}")
            message: Message | None = event.message
            if message is None:
                continue
            self.deliver(name, message.author, message.sequence)
            if name in self.story.users:
                has_news_of_devices |= self._users.came(name, message)
                if message.author == self._identities[name].ref:
                    self._texts[message.author][0].append(message.text)
            if message.author not in self._ever[name]:
                raise Violation("wanted", name, f"stores {message.author[:5]}, which it has never wanted")
            if not any(
                message.sequence <= len(branch) and branch[message.sequence - 1] == message.text
                for branch in self._texts[message.author]
            ):
                raise Violation(
                    "authentic", name, f"stores {message.author[:5]} {message.sequence} of nobody's"
                )
            self._go_on(name, message, now)
        if has_news_of_devices:
            self._users.check(name, self._wants(name))
        self._check_ended(name)
        self._check_loose(name)
        self._holes.check(name)
        self._rooms.check(name, member.peer)
        connections = len(member.peer.connections)
        if connections > _CONNECTIONS + _HANDSHAKES:
            raise Violation("bounded", name, f"has {connections} connections")
        exchanges = member.peer.replication.exchanges()
        if exchanges > connections * len(self._wants(name)):
            raise Violation("bounded", name, f"keeps {exchanges} exchanges on {connections} connections")

    def _wants(self, name: str) -> Collection[str]:
        """Return the feeds that a peer replicates; a user's peer decides for itself about those of users."""
        wanted: Collection[str] = self._wanted[name]
        if name in self.story.users and name in self._members:
            wanted = self._members[name].peer.protocol.wanted
        return wanted

    def _go_on(self, name: str, message: Message, now: int) -> None:
        """Let a peer replicate the successor of a feed that has ended, as the program of a user does."""
        end = end_of(message.author, message.sequence, message.content)
        if end is None or name in self.story.old:
            return
        self.coverage["ended"] += 1
        if end.successor is not None and end.successor not in self._wanted[name]:
            self.coverage["goes on"] += 1
            self._wanted[name].add(end.successor)
            self._ever[name].add(end.successor)
            self._members[name].peer.want(end.successor, now)

    def _check_ended(self, name: str) -> None:
        """Check that a peer holds nothing after the end of a feed, and asks nobody for it."""
        if name in self.story.old:
            return
        replication = self._members[name].peer.replication
        for feed, (last, *_) in self.story.ends.items():
            key = self._key(feed)
            tip = self._stores[name].tips().get(key, 0)
            if tip > last:
                raise Violation("ended", name, f"has {tip} of {key[:5]}, which ends with {last}")
            asked = [number for number, each in replication.sessions.items() if _receives(each, key)]
            if tip == last and asked:
                raise Violation("ended", name, f"asks for more of {key[:5]} on connections {asked}")

    def _check_loose(self, name: str) -> None:
        """Check that somebody has looked for each message out of order, by its id."""
        if not self._has_wants:
            return
        loose = self._members[name].peer.services.loose
        sought = {id_ for ids in self._sought.values() for id_ in ids}
        if loose is not None and not loose.wanted.keys() <= sought:
            raise Violation("wanted", name, "looks for a message that nobody has asked for")
        if loose is not None and max(loose.heard.values(), default=0) > _MOST_HEARD:
            raise Violation("bounded", name, f"hears of a message more than {_MOST_HEARD} times")
        for message in self._stores[name].out_of_order:
            if message.id not in sought:
                raise Violation(
                    "wanted", name, f"keeps {message.author[:5]} {message.sequence}, which is not it"
                )

    def _unfetched(self) -> Violation | None:
        """Return a peer without a message that it looks for, and that an honest peer has, three hops far."""
        for name, sought in self._sought.items():
            for id_, (feed, number) in sought.items():
                key, store = self._key(feed), self._stores[name]
                near = self._near(name, key) if store.get(id_) is None else ()
                if any(self._stores[each].get(id_) is not None for each in near):
                    return Violation("fetched", name, f"lacks {key[:5]} {number}, which others have")
        return None

    def _near(self, name: str, key: str) -> set[str]:
        """Return the honest peers within three calls of one; the author of `key` blocks none on the way."""
        near = {name} - {blocked for feed, blocked in self._blocked if feed == key}
        for _ in range(3):
            beside = {end for pair in self.story.calls if not near.isdisjoint(pair) for end in pair}
            near |= {end for end in beside if end in self.story.honest and (key, end) not in self._blocked}
        return near

    def _check_stores(self) -> None:
        """Check every honest peer's store, message by message."""
        for name in self.story.honest:
            store = self._stores[name]
            if name in self.story.users:
                self._users.check_names(name)
            if self._has_wants:
                self.coverage["out of order"] += len(store.out_of_order)
            for key, tip in store.tips().items():
                held = [stored.text.decode() for stored in store.after(key, 0, 1000)]
                if len(held) != tip or not any(branch[:tip] == held for branch in self._texts[key]):
                    raise Violation("whole", name, f"holds {len(held)} of {tip} of {key[:5]}, or others")
            for key, (one, other) in store.forks().items():
                if not proves_fork(one, other) or len(self._texts[key]) == 1:
                    raise Violation("forks", name, f"has a proof against {key[:5]} that is none")

            for (key, blocked), written in self._blocked.items():
                if blocked == name and store.tips().get(key, 0) > written:
                    raise Violation("blocked", name, f"goes on getting {key[:5]}")

    def _expected(self) -> list[tuple[str, str, int]]:
        """Return how many messages of each feed each honest peer must have in the end."""
        expected: list[tuple[str, str, int]] = []
        for user in sorted(self.story.users):
            expected += self._reached(user, self._identities[user].ref, self._users.tip(user, user))
        for feed, writers in self.story.feeds.items():
            if len(writers) > 1 or writers[0] in self.story.hostile:
                continue
            written = self._written[writers[0], feed]
            if feed in self.story.ends:  # peers that know of no ends may have more
                written = min(written, self.story.ends[feed][0])
            expected += self._reached(writers[0], self._key(feed), written)
        return expected

    def _reached(self, writer: str, key: str, written: int) -> list[tuple[str, str, int]]:
        """Return how many messages of a feed each peer must have that honest ones connect with its writer."""

        def is_willing(here: str, other: str) -> bool:
            is_honest = other not in self.story.hostile
            return is_honest and key in self._wants(other) and (key, other) not in self._blocked

        pairs = (*self.story.calls, *self._rooms.pairs())
        return [(name, key, written) for name in sorted(reached(writer, pairs, is_willing))]

    def _unproven(self) -> tuple[str, str] | None:
        """Return a peer and a forked feed without its required proof.

        The peer has called, or was called by, a peer with more messages of another branch.
        """
        for pair in self.story.calls:
            for feed, writers in self.story.feeds.items():
                key = self._key(feed)
                if len(writers) == 1 or not all(self._goes_on(name, key) for name in pair):
                    continue
                shorter, longer = sorted(pair, key=lambda name: self._stores[name].tips().get(key, 0))
                tip = self._stores[shorter].tips().get(key, 0)
                if 0 < tip < self._stores[longer].tips().get(key, 0):
                    one, other = (self._stores[name].after(key, tip - 1, 1) for name in (shorter, longer))
                    if one[0].text != other[0].text:
                        return shorter, key
        return None

    def _goes_on(self, name: str, key: str) -> bool:
        """Return whether a peer is honest, replicates a feed, and knows of no fork."""
        return (
            name not in self.story.hostile
            and key in self._wanted[name]
            and (key, name) not in self._blocked
            and key not in self._stores[name].forks()
        )

    def _missing(self) -> Violation | None:
        unproven = self._unproven()
        if unproven is not None:
            return Violation("forks", unproven[0], f"has no proof against {unproven[1][:5]}")
        for name, key, tip in self._expected():
            held = self._stores[name].tips().get(key, 0)
            if held < tip if name in self.story.old else held != tip:
                return Violation("delivery", name, f"has {held} of {tip} of {key[:5]}")
        return (
            self._unfetched()
            or self._holes.lacking(self.story.calls)
            or self._users.waiting()
            or self._rooms.missing(self._members)
        )

    def _check_silence(self) -> None:
        """Check that complete peers fall silent, if none of them is hostile."""
        forked = any(len(writers) > 1 for writers in self.story.feeds.values())
        if self.story.hostile or forked or not self._rooms.are_calm():
            return
        # A peer that was cut off calls again, and TCP is slow on bad links.
        members = self._members
        self.fall_silent(lambda: [each.sent for each in members.values()], CATCH_UP_NS, _QUIET)

    def _check_stay(self) -> None:
        """Check that friends of a room that works stay connected, whatever hostile rooms do."""
        if not self._rooms.pairs():
            return
        self.run(self._rooms.patience + _STAY)
        before = self._met.copy()
        self.run(_STAY)
        refs = {peer: identity.ref for peer, identity in self._identities.items()}
        for name, other in sorted(self._rooms.pairs()):
            if {name, other} <= {*self.story.honest} and self._met[name, refs[other]] > before[
                name, refs[other]
            ]:
                raise Violation("stay", name, f"meets {other} again and again")

    def _empty_rooms(self) -> None:
        """Let all leave the rooms, and check that nothing of them is left."""
        if not self.story.rooms:
            return
        for name in self.story.peers:
            for room in self.story.rooms if self._members[name].peer is not None else ():
                self._rooms.do("exit", name, room, self._members[name], self.now)
            self.network.settle(name)
        began, caught_up = self.now, self.outcome.caught_up
        self.catch_up(began, lambda: self._rooms.remaining(self._members), _LEAVE_NS)
        self.outcome.caught_up = caught_up


def _receives(session: Session, feed: str) -> bool:
    exchange = session.exchanges.get(feed)
    return exchange is not None and exchange.receives


PASSES = emulated("calls", "feeds", "hostile", "holes", "visits", "friends")

SWARMS = Family("swarms", Swarm, make_swarm, _World, CATCH_UP_NS, PASSES, CHANGES)
