"""The classic part of a simulated world: applications that request names, answer, publish and follow logs.

Invariants besides those of the observers of links and exchanges:

- every Interest that an application expresses ends by Data with the producer's bytes, by a Nack, or by its
  lifetime (`clients.Consumer`);
- requests repeated until answered are answered, and a log's follower has all items, within
  CLASSIC_CATCH_UP_NS after the last disturbance, if producers answer: `unsatisfied`;
- state returns to zero after applications have ended and the longest lifetime is over: `check_empty`.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from random import Random

from base.units import MS, US
from forwarder.forwarder import Forwarder
from forwarder.host import Application, Host
from forwarder.links.reliability import MEMORY_NS
from forwarder.lli.estimates import MAX_TIMEOUT
from forwarder.strategies import parse
from forwarder.strategies.multicast import Multicast
from forwarder.tables.dead_nonces import LIFETIME as NONCE_LIFETIME
from forwarder.wire.packet import parse_data
from ssb.keys import Identity
from ssb.message import Message
from ssb_over_ndn.naming import log_name, message_packet
from testbed.layerings.kinds.ndn import NDN_LAYERINGS, LongLivedParameters, SyncParameters
from testbed.verify.classic.clients import (
    Consumer,
    LogFollower,
    Producer,
    Request,
    Tap,
    hinted,
    make_request,
    name_of,
)
from testbed.verify.classic.exchanges import Exchanges
from testbed.verify.kit.outcome import Violation
from testbed.verify.push.stories import feeds
from testbed.verify.push.stories.story import MAX_ITEMS, Node, Story
from testbed.verify.push.stories.story import Log as LogOfStory
from testbed.verify.push.world.beside import ExtraTraffic
from testbed.verify.push.world.frames import Frame
from testbed.verify.push.world.invariants import Delivery
from testbed.verify.push.world.links import Hops, routes
from testbed.verify.push.world.log import Log
from topologies.emulator.virtual_time import VirtualTime

_LONGEST_WAIT_MS = LongLivedParameters().lifetime_ms
_PERIOD_MS = SyncParameters().periodic_ms * 11 // 10
CLASSIC_CATCH_UP_NS = (_LONGEST_WAIT_MS + _PERIOD_MS) * MS + 3 * MAX_TIMEOUT
"""Bound on catching up after the last event, in virtual time: a lost Interest's remaining lifetime; a sync
group's period, which varies by a tenth; then a request, an item and an answer may each wait for the maximum
time-out after losses.
"""
_ENOUGH_HOPS = 16
_ENOUGH_MS = 2000
"""Interest lifetime sufficient for a round trip and a prompt answer."""
_PROMPT = 500_000
_ENOUGH_PENDING = 1000
_MOST_PARTIAL = 64


@cache
def messages(pool: str) -> tuple[Message, ...]:
    """Return the MAX_ITEMS messages of a log."""
    identity = Identity.from_seed(Random(f"log {pool}").randbytes(32))
    made: list[Message] = []
    for seq in range(1, MAX_ITEMS + 1):
        content = {"type": "post", "text": f"item {seq} of log {pool} " * (80 if seq % 5 == 0 else 1)}
        made.append(Message.create(identity, made[-1] if made else None, content, 1_500_000_000_000 + seq))
    return tuple(made)


class Classic(ExtraTraffic):
    """All of a world's classic applications; see ExtraTraffic."""

    is_there = True
    catch_up = CLASSIC_CATCH_UP_NS

    def __init__(self, story: Story, time: VirtualTime, log: Log, end: int) -> None:
        self._exchanges = Exchanges(
            frozenset(node.name for node in story.nodes if parse(node.strategy)[0].PROBES)
        )
        self._time = time
        self._log = log
        self._pushed = {feeds.name_of(feed) for feed in story.feeds}
        self._announced_until = 0
        self._story = story
        self._prefixes = {prefix.name: prefix for prefix in story.prefixes}
        self._applications: dict[str, list[tuple[Tap, list[bytes]]]] = {node.name: [] for node in story.nodes}
        self._consumers: dict[tuple[str, str], Consumer] = {}
        self._followers: list[LogFollower] = []
        self._logs = {log.name: log for log in story.logs}
        self._names = {log.name: log_name(messages(log.name)[0].author) for log in story.logs}
        for prefix in story.prefixes:
            for number, node in enumerate(prefix.producers):
                label = f"{prefix.name}/{number}"
                self._attach(node, label, Producer(prefix), [name_of(prefix.name), hinted(prefix.name)])
        stop = end + CLASSIC_CATCH_UP_NS
        for each in story.logs:
            self._publish(each, stop)
        for wanted in story.follows:
            if wanted.log in self._logs:
                self._follow(wanted.name)
        for step in story.steps:
            if step.do == "ask":
                self._add_consumer(str(step.what[0]), str(step.what[1]))
        self._hops = self._find_hops()

    def _attach(self, node: str, label: str, application: Application, names: Iterable[bytes]) -> None:
        tap = Tap(node, label, application, self._exchanges, self._time)
        self._applications[node].append((tap, list(names)))

    def _publish(self, log: LogOfStory, stop: int) -> None:
        layering = NDN_LAYERINGS[log.layering]
        times = [time * US for time in log.times]
        rng = Random(f"{self._story.seed} {log.name}")
        application = layering.publisher(
            messages(log.name)[: len(times)],
            times,
            stop=stop,
            rng=rng,
            **layering.parameters.model_validate({}).model_dump(),
        )
        names = [self._names[log.name]]
        if layering.multicast is not None or layering.persistent:
            self._announced_until = stop
        if layering.multicast is not None and layering.multicast.among_all:
            names.append(layering.multicast.prefix(self._names[log.name]))
        self._attach(log.node, f"{log.name}/", application, names)

    def _follow(self, name: str) -> None:
        wanted = next(follow for follow in self._story.follows if follow.name == name)
        log, feed = self._logs[wanted.log], self._names[wanted.log]
        layering = NDN_LAYERINGS[log.layering]
        rng = Random(f"{self._story.seed} {wanted.name}")
        subscription = layering.subscription(
            feed, rng=rng, **layering.parameters.model_validate({}).model_dump()
        )
        contents = tuple(
            parse_data(message_packet(message)).content for message in messages(log.name)[: len(log.times)]
        )

        def report(now: int, text: str) -> None:
            self._log.note(wanted.node, None, f"{name} {text}")
            self._log.count(
                f"followed {log.layering}" if "item" in text else f"follower {text.partition(':')[0]}"
            )

        follower = LogFollower(wanted, subscription, Delivery(name, [contents], None, 0), report)
        self._followers.append(follower)
        names = [] if layering.multicast is None else [layering.multicast.prefix(feed)]
        self._attach(wanted.node, f"{name}/", follower, names)

    def _add_consumer(self, node: str, application: str) -> None:
        label = f"{node}/{application}"
        if (node, application) in self._consumers or node not in self._applications:
            return

        def report(now: int, request: Request, text: str) -> None:
            self._log.note(node, None, f"{label} {text}")
            self._log.count(f"asked: {text}")

        consumer = Consumer(label, Random(f"{self._story.seed} {label}"), report)
        self._consumers[node, application] = consumer
        self._attach(node, label, consumer, [])

    def _find_hops(self) -> dict[str, list[tuple[bytes, Hops]]]:
        """Return each node's routes to neighbours, by name."""
        story = self._story
        ways = [(name_of(prefix.name), prefix.producers) for prefix in story.prefixes]
        ways += [(self._names[log.name], (log.node,)) for log in story.logs]
        hops = routes(story, [ends for _, ends in ways])
        found = {
            node: [(name, there) for (name, _), there in zip(ways, hops[node], strict=True)] for node in hops
        }
        everyone: dict[str, Hops] = {node.name: [] for node in story.nodes}
        for link in story.links:
            everyone[link.a].append((link.b, 1))
            everyone[link.b].append((link.a, 1))
        for log in story.logs:
            multicast = NDN_LAYERINGS[log.layering].multicast
            if multicast is not None:
                for node, there in everyone.items():
                    found[node].append((multicast.prefix(self._names[log.name]), there))
        return found

    def start(self, node: Node, host: Host) -> None:
        """See ExtraTraffic; also add routes to the applications."""
        forwarder = host.forwarder
        strategy, parameters = parse(node.strategy)
        forwarder.choose_strategy(b"", strategy, parameters)
        for log in self._story.logs:
            multicast = NDN_LAYERINGS[log.layering].multicast
            if multicast is not None:
                forwarder.choose_strategy(multicast.prefix(self._names[log.name]), Multicast)
        for tap, names in self._applications[node.name]:
            face = host.attach(tap)
            for name in names:
                forwarder.fib.add(name, face)
        forwarder.regions |= {
            name_of(prefix.name) for prefix in self._story.prefixes if node.name in prefix.producers
        }

    def route(self, node: str, forwarder: Forwarder, peer: str, face: int) -> None:
        for name, hops in self._hops[node]:
            for hop, cost in hops:
                if hop == peer:
                    forwarder.fib.add(name, face, cost)

    def has(self, frame: Frame) -> bool:
        return frame.feed not in self._pushed and frame.hello is None

    def sent(self, node: str, peer: str, frame: Frame) -> None:
        self._exchanges.sent(node, peer, frame, self._time.now)

    def arrived(self, node: str, peer: str, frame: Frame) -> None:
        self._exchanges.arrived(node, peer, frame, self._time.now)

    def settled(self, node: str) -> None:
        self._exchanges.check_settled(node, self._time.now)

    def forget(self, node: str, peer: str | None) -> None:
        self._exchanges.forget(node, peer)

    def ask(self, node: str, application: str, prefix: str, what: tuple[str | int, ...]) -> bool:
        consumer, known = self._consumers.get((node, application)), self._prefixes.get(prefix)
        if consumer is None or known is None:
            return False
        number, selectors, *times = what
        request = make_request(known, int(number), str(selectors), *map(int, times))
        self._log.note(node, None, f"{consumer.label} asks for {prefix} {number} {selectors}".rstrip())
        consumer.ask(request, self._time.now)
        return True

    def unsatisfied(self, connected: Mapping[str, set[str]]) -> list[tuple[str, str]]:
        """See ExtraTraffic. With a PIT quota, nothing is required."""
        if any(node.pending < _ENOUGH_PENDING for node in self._story.nodes):
            return []
        missing = [
            (consumer.label, "has asked in vain")
            for (node, _), consumer in self._consumers.items()
            if any(self._must_be_satisfied(request, connected[node]) for request in consumer.pending)
        ]
        for follower in self._followers:
            wanted, delivery = follower.wanted, follower.delivery
            log = self._logs[wanted.log]
            published = sum(time * US <= self._time.now for time in log.times)
            if log.node in connected[wanted.node] and not delivery.is_done(published):
                missing.append((wanted.name, delivery.progress))
        return missing

    def _must_be_satisfied(self, request: Request, connected: set[str]) -> bool:
        prefix = request.prefix
        return (
            not request.tries
            and prefix.manner in ("answers", "nacks-first")
            and prefix.delay <= _PROMPT
            and connected.issuperset(prefix.producers)
            and request.lifetime >= _ENOUGH_MS * MS
            and (request.hop_limit is None or request.hop_limit >= _ENOUGH_HOPS)
            and not request.name.endswith(bytes(32))
        )

    def stop(self) -> None:
        for consumer in self._consumers.values():
            consumer.stop()
        for follower in self._followers:
            follower.stop(self._time.now)

    def longest(self, pushed: int) -> int:
        """See ExtraTraffic. A forwarder without push treats an LLI as an Interest."""
        steps = [step for step in self._story.steps if step.do == "ask" and len(step.what) > 5]
        lifetimes = [int(step.what[5]) for step in steps]
        lifetimes += [
            NDN_LAYERINGS[log.layering].parameters.model_validate({}).lifetime_ms for log in self._story.logs
        ]
        delays = [prefix.delay * US for prefix in self._story.prefixes]
        announced = max(self._announced_until - self._time.now, 0)
        own = max(max(lifetimes, default=0) * MS, pushed) + max(delays, default=0)
        return own + announced + MEMORY_NS + NONCE_LIFETIME

    def check_empty(self, name: str, host: Host) -> None:
        forwarder = host.forwarder
        forwarder.dead_nonces.has(b"", 0, self._time.now)  # so that it drops expired nonces
        left = {
            "PIT entries": len(forwarder.pit),
            "an index of the PIT": forwarder.pit.may_match(b""),
            "dead nonces": len(forwarder.dead_nonces),
            "alarm at": host.next_deadline(),
            "packets to be sent": len(forwarder.take_outputs()),
        }
        if any(left.values()):
            what = ", ".join(f"{word} {value}" for word, value in left.items() if value)
            raise Violation("state-zero", name, f"all is over, but there is: {what}")
        partial = max((len(host.link(face).reassembler) for face in host.links()), default=0)
        if partial > _MOST_PARTIAL:
            raise Violation("state-zero", name, f"{partial} unfinished packets on a link")

    def check_over(self) -> None:
        for consumer in self._consumers.values():
            if consumer.pending:
                raise Violation("outcome", consumer.label, "has an Interest that has not ended")
