"""Plays a story of a provider and its clients, and checks what must hold."""

from collections import Counter, defaultdict
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any

from ssb.keys import Identity
from ssb.tiny.entry import PACKET
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.contract import MOST_UNREAD, Contract
from ssb.tiny.isp.facts import OVER
from ssb.tiny.isp.messages import NOT_FOUND
from ssb.tiny.isp.party import BaseParty
from ssb.tiny.isp.provider import Provider
from ssb.tiny.node import GROUP, PORT
from ssb.tiny.store import MOST_AHEAD, TinyStore
from testbed.verify.simulate.invariants import Violation
from testbed.verify.simulate.world import Outcome, watched
from testbed.verify.tiny.members import HostileClient, Member, Outsider
from testbed.verify.tiny.story import ISP, MS, SECOND, Kill, Step, Story, make_story
from topologies.emulator.network import EmulatedNetwork
from topologies.endpoint import GroupPort, Program
from topologies.model import Medium, Topology

CATCH_UP_NS = 600 * SECOND
"""Longest pauses: the minute after which a contract's end is not repeated, and rounds of 5 s with losses."""
_LOOK_EVERY = 500 * MS
_CHECKED_EVERY = 4
"""Looks at a node from one check of its whole store to the next."""
_ASKED = 20
"""How often a client asks for a subscription that is refused."""
_CONTROL_BYTES = (MOST_UNREAD + 2 * MOST_AHEAD) * 2 * PACKET
"""Of both control feeds of a contract: what is not known to be read, and what cannot be read yet."""


def play_tiny(seed: int) -> Outcome:
    """Play a seed's story."""
    return play(make_story(seed))


def play(story: Story, catch_up: int = CATCH_UP_NS) -> Outcome:
    """Play a story; everything must be well so long (ns) after its last step."""
    world = _World(story)
    outcome = watched(partial(world.run, catch_up=catch_up), "the cell")
    outcome.time = world.network.now
    outcome.digest = world.digest.hexdigest()
    outcome.coverage = world.coverage
    return outcome


class _World:
    def __init__(self, story: Story) -> None:
        self.story = story
        self.coverage: Counter[str] = Counter()
        self.digest = sha256()
        self._stores = {name: TinyStore() for name in (ISP, *story.clients)}
        self._members: dict[str, Member] = {}
        self._looks = 0
        self._off: set[str] = set()
        self._asleep: set[str] = set()
        self._kills: dict[str, list[Kill]] = defaultdict(list)
        for kill in story.kills:
            self._kills[kill.node].append(kill)
        self._waiting: list[tuple[str, str, tuple[int, ...]]] = []  # sends before a subscription stands
        self._refs: dict[tuple[str, str], bytes] = {}  # asker, asked
        self._asked: Counter[tuple[str, str]] = Counter()
        self._sent: dict[tuple[bytes, str], list[bytes]] = defaultdict(list)  # by reference and sender
        self._read: dict[tuple[bytes, str], list[bytes]] = defaultdict(list)  # by reference and reader
        self._subscribed: dict[bytes, dict[str, bytes]] = defaultdict(dict)  # reference -> client -> contract
        self._left: set[bytes] = set()  # contracts that have come to a farewell
        self._parting: dict[str, str] = {}  # who ends a client's contract
        self._wants: dict[str, bool] = dict.fromkeys(story.clients, False)  # whether it wants a contract
        self._identities = {
            name: Identity.from_seed(sha256(f"{story.seed} {name}".encode()).digest()) for name in story.nodes
        }
        self._names = {identity.public_key: name for name, identity in self._identities.items()}
        medium = Medium(name="cell", members=story.nodes, **story.medium)
        self._topology = Topology(story.nodes, (), (medium,))
        self._ports = {at.node: GroupPort(at, GROUP, PORT) for at in self._topology.attachments}
        programs: dict[str, list[Program]] = {}
        for name in story.nodes:
            if name in self._stores:
                programs[name] = [self._start(name, 0)]
            else:
                outsider = Outsider(Random(f"{story.seed} {name}"), story.hostile[name])
                programs[name] = [Program(outsider, {1: self._ports[name]})]
        self.network = EmulatedNetwork(self._topology, programs, seed=story.seed, capture=None)
        for client in story.clients:
            key = self.root_of(client)
            self._party(ISP).follow(key, 0)
            self._party(client).follow(self.root_of(ISP), 0)
        self._provider().announce(0)
        for step in story.steps:
            self.network.change(step.time, lambda step=step: self._do(step))  # type: ignore[misc]

    def run(self, outcome: Outcome, catch_up: int) -> None:
        """Play the story; raise Violation."""
        end = max(step.time for step in self.story.steps)
        while self.network.now < end:
            self._advance()
        end = self.network.now
        while (missing := self._missing()) is not None:
            if self.network.now > end + catch_up:
                raise missing
            self._advance()
        outcome.caught_up = self.network.now - end
        for name, store in self._stores.items():
            self._check_store(name)
            store.check()

    # Nodes

    def _start(self, name: str, now: int) -> Program:
        story = self.story
        random = Random(f"{story.seed} {name} {now}")

        def make(node: Any, now: int) -> Provider | Client:
            root = self._identities[name]
            if name == ISP:
                return Provider(node, root, random, story.terms, now)
            if name in story.hostile:
                kind = type("Hostile", (HostileClient,), {"kind": story.hostile[name]})
                client: Client = kind(node, root, random, story.terms, now)
                return client
            return Client(node, root, random, story.terms, now)

        store = self._stores[name]
        store._load()  # as another process would read it
        member = Member(store, make, random, now, lambda: self._on_death(name))
        self._members[name] = member
        if self._kills[name]:
            kill = self._kills[name].pop(0)
            member.doom(kill.packets, within=kill.within)
        return Program(member, {1: self._ports[name]})

    def _on_death(self, name: str) -> None:
        self.coverage["killed"] += 1
        self.network.change(self.network.now + 100 * MS, lambda: self._restart(name))

    def _restart(self, name: str) -> None:
        if name not in self._off:
            self.network.replace(name, [self._start(name, self.network.now)])

    def _party(self, name: str) -> BaseParty:
        return self._members[name].party

    def _provider(self) -> Provider:
        party = self._party(ISP)
        assert isinstance(party, Provider)
        return party

    def _client(self, name: str) -> Client:
        party = self._party(name)
        assert isinstance(party, Client)
        return party

    def _is_up(self, name: str) -> bool:
        return name not in self._off and not self._members[name].is_dead

    def _advance(self) -> None:
        self.network.run(self.network.now + _LOOK_EVERY)
        for name in self._stores:
            if self._is_up(name):
                self._look(name)
        self._send_waiting()

    # Steps

    def _do(self, step: Step) -> None:
        self.coverage[step.do] += 1
        name = step.what[0]
        match step.do:
            case "off":
                self._off.add(name)
                self.network.replace(name, [])
            case "on":
                self._off.discard(name)
                self._restart(name)
            case "sleep":
                self._asleep.add(name)
            case "awake":
                self._asleep.discard(name)
            case "onboard":
                self._wants[name] = True
            case "leave" | "dismiss" | "part":
                self._wants[name] = False
                self._parting[name] = step.do
                self._part(name)
            case "subscribe":
                self._waiting.append((*step.what, ()))
            case "send":
                self._waiting.append(step.what)
            case "unsubscribe":
                self._unsubscribe(*step.what)
        for each in self._stores:
            if self._is_up(each):
                self.network.settle(each)

    def _part(self, name: str) -> None:
        """Let a client, the provider or both end their contract, if it stands."""
        how, now = self._parting[name], self.network.now
        isp, key = self.root_of(ISP), self.root_of(name)
        parties: list[tuple[str, bytes]] = [(name, isp)] * (how != "dismiss") + [(ISP, key)] * (
            how != "leave"
        )
        for who, other in parties:
            if self._is_up(who):
                contract = self._party(who).contract_with(other)
                if contract is not None and contract.facts.state == "open":
                    self._party(who).farewell(other, now)
                    self.network.settle(who)

    def _contract(self, name: str) -> Contract | None:
        return self._client(name).contract_with(self.root_of(ISP))

    def _unsubscribe(self, name: str, other: str) -> None:
        ref = self._refs.get((name, other))
        if ref is None or not self._is_up(name):
            return
        one = self._client(name).subscriptions.get(ref)
        if one is not None and one.state == "stands":
            self._client(name).unsubscribe(ref, self.network.now)

    def _send_waiting(self) -> None:
        """Ask for contracts and subscriptions that are wanted, and send over those that stand."""
        now = self.network.now
        isp = self.root_of(ISP)
        for name, wants in self._wants.items():
            if not wants and name in self._parting:
                self._part(name)
            elif wants and self._is_up(name) and self._contract(name) is None:
                self._client(name).onboard(isp, now)
                self.network.settle(name)
        kept = []
        for name, other, sizes in self._waiting:
            if not self._is_up(name) or not self._may_send(name, other, sizes):
                kept.append((name, other, sizes))
            else:
                self.network.settle(name)
        self._waiting = kept

    def _may_send(self, name: str, other: str, sizes: tuple[int, ...]) -> bool:
        client, now = self._client(name), self.network.now
        contract = self._contract(name)
        pair = (name, other) if (name, other) in self._refs else (other, name)
        ref = self._refs.get(pair)
        one = client.subscriptions.get(ref) if ref is not None else None
        if contract is None or contract.facts.state != "open":
            return False
        if not sizes:
            if ref is None:
                key = self.root_of(other)
                self._refs[name, other] = client.subscribe(contract.facts.isp, key, now)
            return True
        if one is None or ref is None or one.state != "stands" or one.is_leaving:
            return False
        for size in sizes:
            sent = self._sent[ref, name]
            content = f"{name} {len(sent)} ".encode().ljust(size, b".")[: max(size, 8)]
            client.send(ref, content, now)
            sent.append(content)
        self.coverage["sent"] += len(sizes)
        return True

    # What must hold

    def _look(self, name: str) -> None:
        """Take in what has happened at a node, and check it."""
        now = self.network.now
        party = self._party(name)
        for event in party.take_events():
            self.coverage[event.kind] += 1
            self.digest.update(f"{now} {name} {event.kind} {event.ref.hex()} {event.detail}".encode())
            if event.kind == "refused" and event.detail == NOT_FOUND:
                self._ask_again(event.ref)
            if event.kind == "over" and self.story.terms.term is not None and name != ISP:
                self._wants[name] = False
        self._answer_all(name, party)
        if name not in self.story.hostile:
            for contract in party.contracts.values():
                self._check_contract(name, party, contract)
        if isinstance(party, Client) and name not in self._asleep:
            self._read_all(name, party)
        self.coverage.update({f"fault: {fault}": count for fault, count in party.faults.items()})
        party.faults.clear()
        self._looks += 1
        if self._looks % _CHECKED_EVERY == 0:
            self._check_store(name)

    def _answer_all(self, name: str, party: BaseParty) -> None:
        """Answer to requests, most often yes; an event may be lost with its process."""
        if isinstance(party, Client):
            for one in list(party.subscriptions.values()):
                if one.state == "invited":
                    party.answer(one.ref, self.network.now, accept=one.ref[0] % 8 != 0)
                    self.network.settle(name)
                elif one.state == "stands":
                    self._subscribed[one.ref][name] = one.contract

    def _ask_again(self, ref: bytes) -> None:
        """Ask again for what was refused, as the other may have a contract soon; not for ever."""
        for pair in [pair for pair, known in self._refs.items() if known == ref]:
            self._asked[pair] += 1
            if self._asked[pair] < _ASKED and self._wants[pair[1]]:
                del self._refs[pair]
                self._waiting.insert(0, (*pair, ()))

    def _read_all(self, name: str, client: Client) -> None:
        now = self.network.now
        for ref, one in list(client.subscriptions.items()):
            other = self._names[one.contact]
            for entry in client.read(ref):
                read, sent = self._read[ref, name], self._sent[ref, other]
                if len(read) >= len(sent) or sent[len(read)] != entry.content:
                    what = f"{entry.content[:12]!r} from {other} as its {len(read) + 1}th of {len(sent)}"
                    raise Violation("once, in order", name, what)
                read.append(entry.content)
                self.coverage["read"] += 1
                client.confirm(ref, entry.sequence, now)
                self.network.settle(name)

    def _check_contract(self, name: str, party: BaseParty, contract: Contract) -> None:
        store = self._stores[name]
        facts = contract.facts
        if facts.state in ("farewell", OVER):
            self._left.add(contract.id)
        if len(facts.own_line) > contract.terms.unread:
            raise Violation("bounded", name, f"has begun {len(facts.own_line)} data feeds")
        line = store.size([feed for feed in (*facts.own_line, facts.other_data) if feed is not None])
        most = contract.terms.line_bytes() + contract.terms.size * contract.terms.outer_bytes
        if line > most:
            raise Violation("bounded", name, f"stores {line} bytes of data feeds; {most} are agreed")
        control = store.size([feed for feed in (facts.own_control, facts.other_control) if feed is not None])
        if control > _CONTROL_BYTES:
            raise Violation("bounded", name, f"stores {control} bytes of control feeds")
        if isinstance(party, Provider):
            for route in party.routes.values():
                for side in (route.a, route.b):
                    waiting = party._waiting(side)
                    if waiting > contract.terms.held:
                        raise Violation("bounded", name, f"holds {waiting} entries for one receiver")

    def _check_store(self, name: str) -> None:
        """Check that every feed and record is of something that is not over."""
        party, store = self._party(name), self._stores[name]
        known = {self.root_of(name), *party.followed}
        records = {"followed", "announced", "whitelist"}
        for contract in party.contracts.values():
            known |= set(contract.feeds)
            records.add(f"contract {contract.id.hex()}")
        if isinstance(party, Provider):
            for route in party.routes.values():
                known |= {side.feed for side in (route.a, route.b) if side.feed is not None}
                records.add(f"route {route.ref.hex()}")
        elif isinstance(party, Client):
            for one in party.subscriptions.values():
                known |= {feed for feed in (one.own, one.other) if feed is not None}
                records.add(f"subscription {one.ref.hex()}")
        if strangers := set(store.feeds) - known:
            raise Violation("nothing left", name, f"has {len(strangers)} feeds that belong to nothing")
        if others := store.names() - records:
            raise Violation("nothing left", name, f"has records {sorted(others)}")

    def root_of(self, name: str) -> bytes:
        """Return a node's root feed."""
        return self._identities[name].public_key

    def _missing(self) -> Violation | None:
        """Return what is not as it must be in the end; None if nothing is."""
        if self._off or any(self._members[name].is_dead for name in self._stores):
            return Violation("time", "the cell", "a node is down")
        provider = self._provider()
        for name in self.story.clients:
            if name in self.story.hostile:
                continue
            client = self._client(name)
            there = {
                one.id: one.facts.state
                for one in provider.contracts.values()
                if one.facts.client == self.root_of(name)
            }
            here = {one.id: one.facts.state for one in client.contracts.values()}
            states = set(here.values()) | set(there.values())
            wanted = {"open"} if self._wants[name] else set()
            if here != there or (states != wanted and self.story.terms.term is None):
                return Violation(
                    "both alike", name, f"contracts {_short(here)}, at the provider {_short(there)}"
                )
            if self.story.terms.term is not None and states - {"open"}:
                return Violation("both alike", name, f"contracts {_short(here)} do not come to an end")
        return self._unread() or self._left_over()

    def _unread(self) -> Violation | None:
        for (ref, sender), sent in self._sent.items():
            ends = self._subscribed[ref]
            for reader, contract in ends.items():
                if reader == sender or {reader, sender} & set(self.story.hostile):
                    continue
                read = self._read[ref, reader]
                if contract not in self._left and len(read) < len(sent) and len(ends) == 2:
                    sender_left = ends[sender] in self._left
                    what = f"has read {len(read)} of {len(sent)} from {sender}{' who has left' * sender_left}"
                    return Violation("delivery", reader, what)
        return None

    def _left_over(self) -> Violation | None:
        """Check that routes and subscriptions are of contracts that stand."""
        standing = {ref for name in self.story.clients for ref in self._client(name).subscriptions}
        bad = {self.root_of(name) for name in self.story.hostile}
        for ref, route in self._provider().routes.items():
            contracts = [self._provider().contracts.get(side.contract or b"") for side in (route.a, route.b)]
            is_bad = any(one is not None and one.facts.client in bad for one in contracts)
            if ref not in standing and not is_bad:
                return Violation("both alike", ISP, "has a route that no client knows")
        for name in self.story.clients:
            for one in self._client(name).subscriptions.values():
                is_known = one.ref in self._provider().routes or one.state == "wanted"
                if not is_known and one.contact not in bad and name not in self.story.hostile:
                    return Violation("both alike", name, "has a subscription that the provider does not know")
        return None


def _short(states: dict[bytes, str]) -> dict[str, str]:
    return {contract.hex()[:6]: state for contract, state in states.items()}
