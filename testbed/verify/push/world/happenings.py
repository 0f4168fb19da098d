"""The steps of a story: publishing, reading, cuts, restarts, and an attacker's frames."""

from collections.abc import Callable

from testbed.verify.kit.outcome import Violation
from testbed.verify.push.stories.feeds import items_of
from testbed.verify.push.stories.story import MISCHIEF
from testbed.verify.push.world.actors import Reader, Target, inject
from testbed.verify.push.world.beside import ExtraTraffic
from testbed.verify.push.world.frames import Reader as FrameReader
from testbed.verify.push.world.invariants import Grants, digest
from testbed.verify.push.world.links import Wire
from testbed.verify.push.world.log import Log
from testbed.verify.push.world.network import Network, NodePlace
from testbed.verify.push.world.sources import Sources
from topologies.emulator.virtual_time import VirtualTime


class StepRunner:
    """Performs steps on a network.

    Args:
        network: the network.
        time: virtual time.
        log: of steps.
        observers: to notify.
        prod: called with each affected node.
        deliver: called with a link direction, an attacker's frame, and its kind.
    """

    def __init__(
        self,
        network: Network,
        time: VirtualTime,
        log: Log,
        observers: tuple[Grants, Sources, ExtraTraffic],
        prod: Callable[[NodePlace], None],
        deliver: Callable[[Wire, bytes, str], None],
    ) -> None:
        self._network = network
        self._time = time
        self._log = log
        self._grants, self._sources, self._beside = observers
        self._prod = prod
        self._deliver = deliver

    def do(self, do: str, what: tuple[str | int, ...]) -> None:
        """Perform a step; one without meaning (any more) has no effect."""
        network = self._network
        places, wires = network.places, network.wires
        match do, what:
            case "publish", (int(index), int(number), int(items)) if (index, number) in network.devices:
                self._publish(index, number, items)
            case (("subscribe" | "cancel" | "stall" | "read"), (str(name),)) if name in network.readers:
                node, reader = network.readers[name]
                self._act(do, reader)
                self._prod(places[node])
            case "cut", (str(a), str(b), int(signalled)) if (a, b) in wires:
                self._cut(a, b, bool(signalled))
            case "heal", (str(a), str(b)) if (a, b) in wires:
                self._heal(a, b)
            case "restart", (str(node), int(signalled)) if node in places:
                self._restart(places[node], bool(signalled))
            case "renew", (str(a), str(b)) if (a, b) in wires:
                self._renew(places[a], b)
            case "ask", (str(node), str(application), str(prefix), *_):
                if self._beside.ask(node, application, prefix, what[3:]):
                    self._prod(places[node])
            case "inject", (str(a), str(b), str(kind), int(salt)) if (a, b) in wires:
                self._inject(wires[a, b], kind, salt)

    def _publish(self, index: int, number: int, items: int) -> None:
        node, device = self._network.devices[index, number]
        self._log.note(node, None, f"publishes {items} of feed {index}")
        device.publish(items, self._time.now)
        fork = self._network.story.feeds[index].fork
        if fork is not None and number and device.published >= fork:
            self._log.count("published after a fork")
        self._prod(self._network.places[node])

    def _act(self, do: str, reader: Reader) -> None:
        node, name, now = reader.wanted.node, reader.wanted.name, self._time.now
        if do == "subscribe" and not reader.subscribed:
            self._log.count("come again" if reader.held else "subscribe")
            self._log.note(node, None, f"{name} subscribes after {reader.held}")
            reader.subscribe(now)
        elif do == "cancel" and reader.subscribed:
            self._log.count("cancel")
            self._log.note(node, None, f"{name} cancels")
            reader.cancel(now)
        elif do == "stall":
            self._log.count("stall")
            self._log.note(node, None, f"{name} stalls")
            reader.stall()
        elif do == "read":
            reader.read(now)

    def _cut(self, a: str, b: str, signalled: bool) -> None:
        cable = self._network.wires[a, b].cable
        if not cable.up:
            return
        cable.up = False
        cable.epoch += 1
        cable.signalled = signalled
        self._log.count("cut, signalled" if signalled else "cut, silent")
        self._log.note(a, b, "link cut" + (", both told" if signalled else ", nobody told"), lost=True)
        self._link_changed(a, b, signalled=signalled, up=False)

    def _heal(self, a: str, b: str) -> None:
        cable = self._network.wires[a, b].cable
        if cable.up:
            return
        cable.up = True
        self._log.count("heal")
        self._log.note(a, b, "link up")
        self._link_changed(a, b, signalled=cable.signalled, up=True)

    def _link_changed(self, a: str, b: str, *, signalled: bool, up: bool) -> None:
        if signalled:
            self._notify(a, b, up=up)
            self._notify(b, a, up=up)
        self._sources.changed(self._time.now)
        self._network.reroute_later(self._prod)

    def _notify(self, node: str, peer: str, *, up: bool) -> None:
        """Notify a node of its link to a neighbour going up or down."""
        place = self._network.places[node]
        if not up:
            self._forget(node, peer)
        self._network.link_began(node, peer)
        place.host.set_link(place.faces[peer], up=up, now=self._time.now)
        self._prod(place)

    def _forget(self, node: str, peer: str | None = None) -> None:
        """Drop the requests of a neighbour, or of everyone, at a node."""
        self._grants.forget(node, peer)
        self._beside.forget(node, peer)

    def _renew(self, place: NodePlace, peer: str) -> None:
        """Replace a node's face to a neighbour, without notifying the neighbour."""
        self._log.count("face made anew")
        self._log.note(place.name, None, f"makes a new face to {peer}")
        host, face = place.host, place.faces[peer]
        self._forget(place.name, peer)
        del place.peers[face]
        host.remove_face(face, self._time.now)
        self._network.add_face(place, self._network.wires[place.name, peer])
        self._prod(place)

    def _restart(self, place: NodePlace, signalled: bool) -> None:
        self._log.count("restart")
        self._log.note(place.name, None, "restarts")
        peers = [peer for peer in place.faces if self._network.wires[place.name, peer].cable.up]
        self._forget(place.name)
        self._sources.restarts(place.name, self._time.now)
        for device in place.devices:
            device.restart()
        self._network.start(place)
        self._sources.changed(self._time.now)
        for reader in place.readers:
            reader.restart(self._time.now)
        self._prod(place)
        if signalled:
            for up in (False, True):
                for peer in peers:
                    self._notify(peer, place.name, up=up)

    def _inject(self, wire: Wire, kind: str, salt: int) -> None:
        """Deliver an attacker's frame; an invalid one must change nothing but counters."""
        network, now = self._network, self._time.now
        if not wire.cable.up:
            return
        index = salt // 2 % len(network.story.feeds)
        feeds = network.places[wire.b].host.forwarder.feeds
        if feeds is None or feeds.store.find(network.names[index]) is None:
            return  # unverified feeds may be forged
        device = network.devices[index, 0][1]
        items = items_of(network.story.feeds[index], 0)
        payload = inject(kind, salt, Target(network.names[index], items, device.published, wire.heard))
        if payload is None:
            return
        self._log.count(f"injected {kind}")
        self._log.note(wire.a, wire.b, f"injected: {kind}")
        if kind in MISCHIEF:
            frame = FrameReader().read(payload, now)
            self._sources.heard(wire.b, wire.a, frame, 0)  # possibly recorded at the beginning
            self._grants.arrived(wire.b, wire.a, frame, now)  # the attacker's LLI is an LLI
            self._deliver(wire, payload, kind)
            return
        host = network.places[wire.b].host
        before = digest(host)
        self._deliver(wire, payload, kind)
        if digest(host) != before:
            raise Violation("forgery", wire.b, f"an injected packet ({kind}) has changed state")
