"""Customers, providers and repositories in the emulator, for tests of NDN over SSB."""

import hashlib
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from forwarder.forwarder import Forwarder
from forwarder.wire.lp import make_lp, parse_lp
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import make_data, make_interest, parse_interest, read_name
from ndn_over_ssb.contract import Terms
from ndn_over_ssb.name_space import statement
from ndn_over_ssb.participant import Participant
from ndn_over_ssb.trust import Trust
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.peer import PORT, Peer, PeerOptions
from ssb.peer.scheduler import SchedulerOptions
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from testbed.scenario.sections import TopologySpec
from topologies.emulator.network import EmulatedNetwork
from topologies.endpoint import Program, StreamPort

MS = 1_000_000
S = 1_000 * MS
EPOCH_MS = 1_700_000_000_000.0


def identity(name: str) -> Identity:
    return Identity.from_seed(hashlib.sha256(name.encode()).digest())


class Consumer:
    """Asks for names; keeps what becomes of each: Data, "nack <reason>", or "timeout"."""

    def __init__(self, seed: str = "") -> None:
        self.ends: dict[str, list[bytes | str]] = {}
        self.times: dict[str, int] = {}
        self._due: dict[bytes, int] = {}
        self._outputs: list[bytes] = []
        self._random = Random(f"consumer {seed}")

    def ask(self, uri: str, now: int, lifetime_ms: int = 4000, **fields: Any) -> None:
        name = from_uri(uri)
        self._due[name] = now + lifetime_ms * MS
        nonce = self._random.getrandbits(32)
        self._outputs.append(make_interest(name, nonce=nonce, lifetime_ms=lifetime_ms, **fields))

    def receive(self, packet: bytes, now: int) -> None:
        header = parse_lp(packet)
        name = read_name(header.fragment)
        end = header.fragment if header.nack_reason is None else f"nack {header.nack_reason}"
        asked = next((each for each in self._due if name.startswith(each)), name)
        self._end(asked, end, now)

    def take_outputs(self) -> list[bytes]:
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        return min(self._due.values(), default=None)

    def wake(self, now: int) -> None:
        for name, due in list(self._due.items()):
            if now >= due:
                self._end(name, "timeout", now)

    def _end(self, name: bytes, end: bytes | str, now: int) -> None:
        self._due.pop(name, None)
        self.ends.setdefault(to_uri(name), []).append(end)
        self.times[to_uri(name)] = now


class Producer:
    """Answers Interests from a mapping of URIs to Data packets, or by a function of the name."""

    def __init__(self, packets: Mapping[str, bytes] | Callable[[bytes], bytes | None]) -> None:
        self._packets = packets
        self.asked: list[str] = []
        self._outputs: list[bytes] = []

    def receive(self, packet: bytes, now: int) -> None:
        header = parse_lp(packet)
        if header.nack_reason is not None or header.fragment[:1] != b"\x05":
            return
        interest = parse_interest(header.fragment)
        self.asked.append(to_uri(interest.name))
        if callable(self._packets):
            data = self._packets(interest.name)
        else:
            data = self._packets.get(to_uri(interest.name))
        if data is not None:
            token = header.pit_token
            self._outputs.append(data if token is None else make_lp(data, pit_token=token))

    def take_outputs(self) -> list[bytes]:
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        return None

    def wake(self, now: int) -> None:
        pass


class World:
    """Participants on nodes of an emulated network."""

    def __init__(self, links: list[tuple[str, str]], *, seed: int = 1, **link: Any) -> None:
        parameters = {"delay_ms": 5.0} | link
        self.topology = TopologySpec(links=tuple({"a": a, "b": b, **parameters} for a, b in links)).build()
        self.seed = seed
        self.links = links
        self.stores: dict[str, MemoryFeeds] = {}
        self.clocks: dict[str, dict[str, dict[str, int]]] = {}
        self.nodes: dict[str, Participant] = {}
        self.consumers: dict[str, Consumer] = {}
        self._built: dict[str, dict[str, Any]] = {}
        self.network = EmulatedNetwork(self.topology, {}, seed=seed, capture=None)

    @property
    def now(self) -> int:
        return self.network.now

    def add(
        self,
        name: str,
        *,
        offer: Terms | None = None,
        trust: Callable[[], Trust] | None = None,
        admits: Callable[[str], bool] = lambda customer: True,
        producer: Producer | None = None,
        controlled_push: bool = False,
    ) -> Participant:
        """Put a participant on a node, or start it anew with the store that it had."""
        self._built[name] = {
            "offer": offer,
            "trust": trust,
            "admits": admits,
            "producer": producer,
        }
        store = self.stores.setdefault(name, MemoryFeeds())
        clocks = MemoryClocks(self.clocks.setdefault(name, {}))
        own = identity(name)
        now = self.now
        random = Random(f"{self.seed} {name} {now}")
        scheduler = SchedulerOptions(first_pause=S // 2, last_pause=4 * S)
        peer = Peer(own, store, clocks, [], PeerOptions(scheduler=scheduler), random, EPOCH_MS)

        def publish(content: Mapping[str, Any], time: int) -> Message:
            message = store.publish(own, content, EPOCH_MS + time / MS)
            peer.appended(own.ref, time)
            return message

        node = Participant(
            own,
            peer,
            peer,
            store,
            publish,
            identity("root").ref,
            Forwarder(rng=Random(f"{name} forwarder"), controlled_push=False),
            offer=offer,
            admits=admits,
            trust=None if trust is None else trust(),
            epoch_ms=EPOCH_MS,
            now=now,
        )
        self.nodes[name] = node
        self.consumers[name] = Consumer(name)
        self.faces = node.attach(self.consumers[name], now=now)
        if producer is not None:
            node.attach(producer, serves=True, now=now)
        for a, b in self.links:
            if a == name:
                peer.add(identity(b).ref, (self.topology.address(b), PORT), now, is_kept=True)
        self.network.replace(name, [Program(node, {1: StreamPort(PORT)})])
        return node

    def restart(self, name: str) -> Participant:
        return self.add(name, **self._built[name])

    def run(self, seconds: float) -> None:
        self.network.run(self.now + int(seconds * S))

    def do(self, name: str, action: Callable[[Participant], Any]) -> Any:
        """Have a participant do something now."""
        result = action(self.nodes[name])
        self.nodes[name].settle(self.now)
        self.network.settle(name)
        return result

    def ask(self, name: str, *uris: str, **fields: Any) -> None:
        """Have the consumer on a node ask for names."""
        for uri in uris:
            self.consumers[name].ask(uri, self.now, **fields)
        self.do(name, lambda node: None)

    def ends(self, name: str, uri: str) -> list[bytes | str]:
        """Return what became of the Interests for a name."""
        return self.consumers[name].ends.get(uri, [])

    # The name space

    def allocate(self, prefix: str, holder: str, repositories: tuple[str, ...] = ()) -> str:
        """Have the root give away a prefix, and its holder name the repositories; return the allocation."""
        given = self.say("root", "allocate", prefix=from_uri(prefix), to=identity(holder).ref)
        if repositories:
            refs = tuple(identity(each).ref for each in repositories)
            self.say(holder, "repository", title=given, repositories=refs)
        return given

    def say(self, name: str, do: str, **parts: Any) -> str:
        """Have a participant make a statement; return its id."""
        message: Message = self.do(name, lambda node: node.say(statement(do, **parts), self.now))
        return message.id

    def request(self, customer: str, provider: str, terms: Terms | None = None) -> str:
        """Have a participant ask another for a contract; return its id."""
        ref = identity(provider).ref
        made: str = self.do(customer, lambda node: node.request(ref, terms or Terms(), self.now))
        return made


def data(uri: str, content: bytes = b"content", **fields: Any) -> bytes:
    """Return a Data packet."""
    return make_data(from_uri(uri), content, **fields)
