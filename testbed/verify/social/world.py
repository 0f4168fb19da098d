"""Plays a story of people and their forwarders, and checks the invariants."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from base.endpoint import Address, Endpoint, LinkPort, Program
from base.units import MS, SECOND
from forwarder.feedcache.items import parse_item
from forwarder.links.link import LinkService
from forwarder.wire.feed import split_item
from forwarder.wire.lp import open_data
from forwarder.wire.packet import Interest, make_interest, parse_interest
from forwarder.wire.tlv import MalformedPacket
from ssb.application import Plan
from ssb.graph import Graph
from ssb_over_ndn.naming import log_key, log_name
from testbed.layerings.kinds.social import SOCIAL_LAYERINGS, SocialNode
from testbed.layerings.nodes.node import AppState, Context
from testbed.layerings.nodes.workload import Feed, Workload
from testbed.scenario.sections import TopologySpec
from testbed.verify.kit.changes import CHANGES, change_luck
from testbed.verify.kit.family import Family
from testbed.verify.kit.outcome import OutcomeOptions, Violation
from testbed.verify.kit.shrink import emulated
from testbed.verify.kit.story import Step
from testbed.verify.kit.world import World, reached
from testbed.verify.social.story import Neighbourhood, identity_of, make_story
from testbed.verify.social.strangers import Stranger
from topologies.emulator.network import EmulatedNetwork

CATCH_UP_NS = 60 * SECOND
"""A refusal is remembered for 16 s, on each node of the path; the refused node asks again after 8 s at most.
"""
_HELLO_MS = 500
_LIFETIME_MS = {"ssb-aware": 4000}
_GONE = 3 * _HELLO_MS * MS + 500 * MS
_QUIET = 6 * SECOND  # longer than any Interest of a story lives


class _Tap:
    """An endpoint whose packets from neighbours somebody sees first; compiled endpoints cannot be patched."""

    def __init__(self, endpoint: Endpoint, see: Callable[[bytes], None]) -> None:
        self._receive, self._see = endpoint.receive, see
        self._links: dict[int, LinkService] = defaultdict(LinkService)
        self.set_link, self.take_outputs = endpoint.set_link, endpoint.take_outputs
        self.next_deadline, self.wake = endpoint.next_deadline, endpoint.wake

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        packet = None
        with suppress(MalformedPacket):
            packet = self._links[port].receive(payload, now)
        if packet is not None:
            self._see(packet)
        self._receive(port, payload, sender, now)


class SocialWorld(World[Neighbourhood]):
    """A story's network.

    Args:
        story: the events.
        rate: Interests flooded by strangers each 100 ms.
        wanted: see World.

    Attributes:
        nodes: the honest ones.
        received: node and author -> the author's messages received there.
    """

    def __init__(self, story: Neighbourhood, wanted: OutcomeOptions, rate: int = 20) -> None:
        super().__init__(story, wanted)
        self.received: Counter[tuple[str, str]] = Counter()
        self.topology = TopologySpec(links=story.links).build()
        self._kind = SOCIAL_LAYERINGS[story.layering]
        self._refs = {person: identity_of(story.seed, person).ref for person in story.people}
        self._feeds = {
            person: Feed(person, messages, times, identity_of(story.seed, person))
            for person, (messages, times) in story.logs.items()
        }
        self._texts = {self._refs[person]: messages for person, (messages, _) in story.logs.items()}
        self._end = story.last + 3 * CATCH_UP_NS
        follows = {
            person: tuple(self._feeds[other] for other in story.people if self._always_wants(person, other))
            for person in story.people
        }
        self._workload = Workload(tuple(self._feeds.values()), follows)
        self._states: dict[str, AppState] = defaultdict(AppState)
        self._ever = {node: self._allowed_ever(node) for node in (*story.routers, *story.people)}
        self._final: dict[str, set[str]] = {}
        self.nodes: dict[str, SocialNode] = {}
        programs: dict[str, Any] = {}
        for name in self.topology.nodes:
            if name in story.strangers:
                interface = self.topology.ends_of(name)[0]
                stranger = Stranger(
                    story.strangers[name],
                    [*self._refs.values()],
                    Random(f"{story.seed} {name}"),
                    story.last,
                    rate,
                )
                programs[name] = [Program(stranger, {1: LinkPort(interface)})]
            else:
                programs[name] = self._build(name, None)
        self.network = EmulatedNetwork(self.topology, programs, seed=story.seed, capture=None)
        for a, b in story.away:
            self.set_link(a, b, up=False, signalled=True)
        self.schedule()

    def play(self) -> None:
        end = self.story.last
        self.run(end)
        for number, link in enumerate(self.topology.links):
            calm = replace(link, loss_percent=0.0, duplicate_percent=0.0, jitter_ms=0.0)
            self.network.change_link(number, calm)
        self.catch_up(end, self._missing, CATCH_UP_NS)
        self._check_gone(end)
        self._check_events()
        for name, node in self.nodes.items():
            node.keeper.end(self.now)
            self.network.settle(name)
        self.run(_QUIET)
        for name, node in self.nodes.items():
            if entries := node.host.forwarder.pit_entries():
                raise Violation("nothing left", name, f"keeps {entries} PIT entries")

    # Nodes

    def _build(self, name: str, since: int | None) -> list[Program]:
        """Make a node; return its programs."""
        story, parameters = self.story, self._kind.parameters.model_validate({}).model_dump()
        parameters |= {"hops": story.hops, "hello_ms": _HELLO_MS}
        parameters |= {"lifetime_ms": _LIFETIME_MS.get(story.layering, 1000)}
        plan = Plan(100 * MS, self._end) if name in story.people else None
        node = SocialNode(
            Context(
                name=name,
                network=self.topology,
                workload=self._workload,
                layering=story.layering,
                parameters=parameters,
                seed=story.seed,
                start=0,
                stop=self._end,
                plan=plan,
                state=self._states[name],
                since=since,
            ),
            self._kind,
        )
        self.nodes[name] = node
        return [Program(_Tap(host, partial(self._take, name)), ports) for host, ports in node.programs]

    def do(self, step: Step) -> None:
        if step.do == "restart":
            (name,) = step.what
            self._collect(name)
            self.network.replace(name, self._build(name, self.now))
        else:
            a, b, is_signalled = step.what
            self.set_link(a, b, up=step.do == "heal", signalled=is_signalled)

    # Invariants

    def check_nodes(self) -> None:
        for name in self.nodes:
            self._collect(name)

    def _take(self, name: str, packet: bytes) -> None:
        """Check that a received packet is of an author on a graph of the node's users."""
        opened = open_data(packet)
        parts = None if opened is None else split_item(opened[0].name)
        if opened is None or parts is None:
            return
        author, seq = log_key(parts[0]), parts[1]
        try:
            parse_item(parts[0], seq, opened[0])
        except ValueError:
            self.coverage["forged items"] += 1
            return  # a stranger's, which can be sent anywhere
        self.coverage["items"] += 1
        self.received[name, author] += 1
        self.record(f"{self.now} {name} {author} {seq}")
        if author not in self._ever[name] or (self._final and author not in self._final[name]):
            if self.story.layering == "social-routing" and name in self.story.routers:
                self.coverage["leaks to relays"] += 1
                return
            raise Violation("no leak", name, f"gets {author[:6]} {seq}, who is on no graph of its users")

    def _collect(self, name: str) -> None:
        """Check the items of an application."""
        for row in self.nodes[name].take_events():
            self.coverage[row["event"]] += 1
            if row["event"] == "delivered":
                self.record(f"{row['time']} {name} {row['feed']} {row['seq']}")
                self.deliver(name, row["feed"], row["seq"])

    def _missing(self) -> Violation | None:
        """Return missing messages: neighbours have the same of logs on their graphs."""
        tips = {name: node.keeper.replicas.tip for name, node in self.nodes.items()}
        for name, author in self._expected():
            tip = tips[name](log_name(author))
            if tip != len(self._texts[author]):
                said = f"has {tip} of {len(self._texts[author])} of {author[:6]}"
                return Violation("delivery", name, said)
        allowed = self._allowed()
        for one, other in self._up() if not self._kind.by_receiver else ():
            for author in sorted(allowed.get(one, set()) & allowed.get(other, set())):
                feed = log_name(author)
                if tips[one](feed) != tips[other](feed):
                    said = f"has {tips[one](feed)} of {author[:6]}, and {other} {tips[other](feed)}"
                    return Violation("delivery", one, said)
        return None

    def _expected(self) -> list[tuple[str, str]]:
        """Return the logs that each node must hold in the end."""
        found = self._reachable(self._allowed())
        if self._kind.by_receiver:  # others store nothing
            found = [(node, author) for node, author in found if node in self.story.people]
        return found

    def _check_events(self) -> None:
        """Check the stored messages, and their delivery to applications."""
        for name, node in self.nodes.items():
            replicas = node.keeper.replicas
            for feed in replicas:
                log, texts = replicas[feed], self._texts[log_key(feed)]
                for seq in range(log.oldest, log.tip + 1):
                    data = log.get(seq)
                    if data is None or parse_item(feed, seq, data).message != texts[seq - 1].encoded:
                        raise Violation("authentic", name, f"holds {seq} that its author has not written")
        for name, author in self._expected():
            follows = {feed.key for feed in self._workload.follows.get(name, ())}
            if author in follows and self.told[name, author] != len(self._texts[author]):
                told = self.told[name, author]
                raise Violation("delivery", name, f"is told {told} of {author[:6]}")

    def _check_gone(self, end: int) -> None:
        """Check that logs outside the graphs are no longer carried."""
        self.run(end + _GONE - self.now)
        while (wrong := self._left_over() or self._missing()) is not None:
            if self.now > end + 2 * CATCH_UP_NS:
                raise wrong
            self.run(SECOND)
        self._final = self._allowed()
        self.run(2 * SECOND)

    def _left_over(self) -> Violation | None:
        """Return stored logs on no graph of a node's users."""
        allowed = self._allowed()
        for name, node in self.nodes.items():
            if self._kind.by_receiver and name in self.story.routers:
                continue
            forwarder = node.host.forwarder
            for author in sorted(self._texts.keys() - allowed[name]):
                feed = log_name(author)
                is_cached = forwarder.feeds is not None and forwarder.feeds.store.find(feed) is not None
                if feed in node.keeper.replicas or is_cached or forwarder.cs.find(_any(feed), self.now):
                    said = f"still holds {author[:6]}, on no graph of its users"
                    return Violation("nothing else", name, said)
        return None

    # Graphs

    def _served(self, node: str, *, ever: bool) -> list[str]:
        """Return a node's users: its person, or those at neighbours."""
        if node in self.story.people:
            return [node]
        users = []
        for link in self.story.links:
            pair = (link["a"], link["b"])
            if node in pair:
                other = pair[0] if pair[1] == node else pair[1]
                if other in self.story.people and (ever or self._is_up(pair)):
                    users.append(other)
        return users

    def _up(self) -> list[tuple[str, str]]:
        """Return the links that are up in the end, by their ends."""
        ends = [(link["a"], link["b"]) for link in self.story.links]
        return [pair for pair in ends if self._is_up(pair)]

    def _is_up(self, pair: tuple[str, str]) -> bool:
        """Return whether a link is up in the end."""
        state = {*pair} not in [{*away} for away in self.story.away]
        for step in self.story.steps:
            if step.do in ("cut", "heal") and {*step.what[:2]} == {*pair}:
                state = step.do == "heal"
        return state

    def _allowed(self) -> dict[str, set[str]]:
        """Return the authors on the graphs of each node's users, by the contents of the node's logs.

        A node's logs depend on its earlier knowledge and reach: so the graphs are those of these logs, and a
        node must have all logs that they imply, if in reach.
        """
        nodes = (*self.story.routers, *self.story.people)
        served = {node: [self._refs[user] for user in self._served(node, ever=False)] for node in nodes}
        if self._kind.by_receiver:
            everybody = sorted({user for users in served.values() for user in users})
            served |= dict.fromkeys(self.story.routers, everybody)
        return {node: self._reach(node, served[node]) for node in nodes}

    def _reach(self, node: str, users: Sequence[str]) -> set[str]:
        """Return the authors on the graphs of users, by a node's logs."""
        replicas = self.nodes[node].keeper.replicas
        reach: set[str] = set()
        for user in users:
            graph = Graph(user, self.story.hops)
            for author, messages in self._texts.items():
                for message in messages[: replicas.tip(log_name(author))]:
                    graph.add(message)
            reach |= graph.replicated()
        return reach

    def _allowed_ever(self, node: str) -> set[str]:
        """Return the authors possibly ever on the graphs of a node's users, by anybody's knowledge.

        A statement may be known without the earlier ones of others, so this ignores blocks and unfollows.
        """
        return {author for user in self._served(node, ever=True) for author in self._reach_of_follows(user)}

    def _reach_of_follows(self, user: str) -> set[str]:
        reach = {self._refs[user]}
        for _ in range(self.story.hops):
            for author in sorted(reach):
                for message in self._texts[author]:
                    content = message.content
                    if isinstance(content, dict) and content.get("following") is True:
                        reach.add(str(content["contact"]))
        return reach

    def _always_wants(self, person: str, other: str) -> bool:
        """Return whether a person follows another from the first statement about them on."""
        said = [
            message.content
            for message in self.story.logs[person][0]
            if isinstance(message.content, dict) and message.content.get("contact") == self._refs[other]
        ]
        return bool(said) and all(content.get("following") is True for content in said)

    def _reachable(self, allowed: Mapping[str, Collection[str]]) -> list[tuple[str, str]]:
        """Return which author's log arrives at which node in the end, given the nodes' graphs."""
        found = []
        for person in self.story.people:
            author = self._refs[person]

            def goes_on(here: str, other: str, person: str = person, author: str = author) -> bool:
                if self._kind.by_receiver and here != person and here in self.story.people:
                    return False  # a home does not forward for others
                return other not in self.story.strangers and author in allowed[other]

            found += [(node, author) for node in sorted(reached(person, self._up(), goes_on))]
        return found


def _any(feed: bytes) -> Interest:
    """Return an Interest for anything under a name."""
    return parse_interest(make_interest(feed, nonce=0, can_be_prefix=True))


_CHANGES = tuple(change for change in CHANGES if change is not change_luck)  # keys follow from the seed

_PASSES = emulated("logs", "strangers", "away")

SOCIAL = Family("social", Neighbourhood, make_story, SocialWorld, CATCH_UP_NS, _PASSES, _CHANGES)
