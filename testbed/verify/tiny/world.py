"""Plays a story of a provider and its clients, and checks the invariants."""

from collections import defaultdict
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any

from base.endpoint import GroupPort, Program
from base.units import MS, SECOND
from ssb.keys import Identity
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.contract import Contract
from ssb.tiny.isp.provider.provider import Provider
from ssb.tiny.node import GROUP, PORT
from ssb.tiny.store import TinyStore
from testbed.layerings.tiny.hostile_client import HostileClient
from testbed.verify.kit.changes import change_luck, move_step, remove_step, repeat_step
from testbed.verify.kit.family import Family
from testbed.verify.kit.outcome import OutcomeOptions
from testbed.verify.kit.shrink import drop_elements_of, drop_nodes, round_times, steps
from testbed.verify.kit.story import Step
from testbed.verify.tiny.hostile import HostileProvider
from testbed.verify.tiny.ledger import Ledger
from testbed.verify.tiny.members import Member, Outsider
from testbed.verify.tiny.story import Cell, Kill, make_story, pace
from topologies.emulator.network import EmulatedNetwork
from topologies.model import Medium, Topology

CATCH_UP_NS = 600 * SECOND
"""Longest pauses: the minute after which a contract's end is not repeated, and rounds of 5 s with losses."""


class CellWorld(Ledger):
    """A cell; all requirements must be met `within` some time, ns, after the last step. See World."""

    PACE = 500 * MS

    def __init__(self, story: Cell, wanted: OutcomeOptions, within: int = CATCH_UP_NS) -> None:
        stores = {name: TinyStore() for name in (*story.isps, *story.clients)}
        super().__init__(story, stores, wanted)
        self._within = within
        self._kills: dict[str, list[Kill]] = defaultdict(list)
        for kill in story.kills:
            self._kills[kill.node].append(kill)
        self._in_groups: list[tuple[str, tuple[Any, ...]]] = []  # group steps that are not possible yet
        self._parting: dict[str, str] = {}  # who ends a client's contract
        self._identities = {
            name: Identity.from_seed(sha256(f"{story.seed} {name}".encode()).digest())
            for name in story.columns
        }
        self._names = {identity.public_key: name for name, identity in self._identities.items()}
        medium = Medium(name="cell", members=story.columns, **story.medium)
        self.topology = Topology(story.columns, (), (medium,))
        self._ports = {at.node: GroupPort(at, GROUP, PORT) for at in self.topology.attachments}
        programs: dict[str, list[Program]] = {}
        for name in story.columns:
            if name in self._stores:
                programs[name] = [self._start(name, 0)]
            else:
                outsider = Outsider(Random(f"{story.seed} {name}"), story.hostile[name])
                programs[name] = [Program(outsider, {1: self._ports[name]})]
        self.network = EmulatedNetwork(self.topology, programs, seed=story.seed, capture=None)
        for client, isp in story.home.items():
            self._party(isp).follow(self.root_of(client), 0)
            self._party(client).follow(self.root_of(isp), 0)
        for one, other in story.peers:
            self._provider(one).peer(self.root_of(other), 0)
            self._provider(other).peer(self.root_of(one), 0)
        for isp in story.isps:
            self._provider(isp).announce(0)
        self.schedule()

    def play(self) -> None:
        self.run(-(-self.story.last // self.PACE) * self.PACE)
        self.catch_up(self.now, self._missing, self._within + pace(self.story))
        for name, store in self._stores.items():
            self._check_store(name)
            store.check()

    # Nodes

    def _start(self, name: str, now: int) -> Program:
        story = self.story
        self._starts[name] += 1
        random = Random(f"{story.seed} {name} {now}")

        def make(node: Any, now: int) -> Provider | Client:
            root = self._identities[name]
            kind: Any = Client if name in story.clients else Provider
            if name in story.hostile:
                attack: Any = story.hostile[name]
                kind = partial(HostileProvider, attack=attack)
                if name in story.clients:
                    kind = partial(HostileClient, attack=attack, pace=story.pace)
            party: Provider | Client
            if name in story.clients:
                party = kind(node, root, random, story.terms, now)
            else:
                lasting = story.terms._replace(term=None, pace=10 * MS, burst=1000, line_pace=None)
                others = {self.root_of(isp): lasting for isp in story.isps}
                party = kind(node, root, random, story.terms, now, others)
            return party

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
        self.network.change(self.now + 100 * MS, lambda: self._restart(name))

    def _restart(self, name: str) -> None:
        if name not in self._off:
            self.network.replace(name, [self._start(name, self.now)])

    def check_nodes(self) -> None:
        for name in self._stores:
            if self._is_up(name):
                self._check_node(name)
        self._send_waiting()

    # Steps

    def do(self, step: Step) -> None:
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
            case "found" | "post":
                self._in_groups.append((step.do, step.what))
            case "unpeer":
                contract = self._party(name).contracts.current(self.root_of(step.what[1]))
                if self._is_up(name) and contract is not None and contract.facts.state == "open":
                    self._party(name).farewell(self.root_of(step.what[1]), self.now)
        for each in self._stores:
            if self._is_up(each):
                self.network.settle(each)

    def _part(self, name: str) -> None:
        """Let a client, the provider or both end their contract, if it stands."""
        how, now = self._parting[name], self.now
        home, key = self.story.home[name], self.root_of(name)
        parties = [(name, self.root_of(home))] * (how != "dismiss") + [(home, key)] * (how != "leave")
        for who, other in parties:
            if self._is_up(who):
                contract = self._party(who).contracts.current(other)
                if contract is not None and contract.facts.state == "open":
                    self._party(who).farewell(other, now)
                    self.network.settle(who)

    def _contract(self, name: str) -> Contract | None:
        return self._client(name).contracts.current(self.root_of(self.story.home[name]))

    def _unsubscribe(self, name: str, other: str) -> None:
        ref = self._refs.get((name, other))
        if ref is None or not self._is_up(name):
            return
        one = self._client(name).subscriptions.get(ref)
        if one is not None and one.state == "stands":
            self._client(name).unsubscribe(ref, self.now)

    def _send_waiting(self) -> None:
        """Request wanted contracts and subscriptions, and send over standing ones."""
        now = self.now
        for one, other in self.story.peers:
            if self._is_up(one) and self._party(one).contracts.current(self.root_of(other)) is None:
                self._party(one).onboard(self.root_of(other), now)
                self.network.settle(one)
        for name, wants in self._wants.items():
            if not wants and name in self._parting:
                self._part(name)
            elif wants and self._is_up(name) and self._contract(name) is None:
                self._client(name).onboard(self.root_of(self.story.home[name]), now)
                self.network.settle(name)
        kept = []
        for name, other, sizes in self._waiting:
            if not self._is_up(name) or not self._may_send(name, other, sizes):
                kept.append((name, other, sizes))
            else:
                self.network.settle(name)
        self._waiting = kept
        self._in_groups = [(do, what) for do, what in self._in_groups if not self._may_do(do, what)]

    def _may_do(self, do: str, what: tuple[Any, ...]) -> bool:
        """Found a group, or write to one; return whether that was possible."""
        name = what[0]
        contract = self._contract(name) if self._is_up(name) else None
        if contract is None or contract.facts.state != "open":
            return False
        client, now = self._client(name), self.now
        if do == "found":
            client.found(contract.facts.isp, [self.root_of(other) for other in what[1:]], now)
        else:
            feeds = {one.own for one in client.subscriptions.values() if one.state == "stands"}
            standing = [one for one in client.groups.values() if not one.pending and one.own in feeds]
            if not standing:
                return False
            for size in what[1]:
                refs = [one.ref for one in client.subscriptions.values() if one.own == standing[0].own]
                content = f"{name} to all {len(self._sent[refs[0], name])} ".encode().ljust(size, b".")
                client.post(standing[0].id, content, now)
                for ref in refs:
                    self._sent[ref, name].append(content)
        self.coverage[f"{do} done"] += 1
        self.network.settle(name)
        return True

    def _may_send(self, name: str, other: str, sizes: tuple[int, ...]) -> bool:
        client, now = self._client(name), self.now
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

    def root_of(self, name: str) -> bytes:
        """Return a node's root feed."""
        return self._identities[name].public_key


_PASSES = (steps, drop_nodes, *map(drop_elements_of, ("kills", "peers", "hostile")), round_times)
_CHANGES = (change_luck, move_step, move_step, remove_step, repeat_step)

TINY = Family("tiny", Cell, make_story, CellWorld, CATCH_UP_NS, _PASSES, _CHANGES, pace)
