"""The daemon: one forwarder with its faces, by a configuration, and by another one while it runs."""

import asyncio
import errno
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from base.netif import interfaces
from base.units import SECOND
from forwarder.daemon.config import Config, ConfigError
from forwarder.daemon.neighbours import Neighbours
from forwarder.daemon.plan import Plan, waiting
from forwarder.faces import unix
from forwarder.faces.system import Faces
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.management.authorisation import Authorisation
from forwarder.management.feednet import FeednetModule
from forwarder.management.manager import Management
from forwarder.strategies.best_route import BestRoute
from forwarder.strategies.strategy import Strategy
from forwarder.tables.face import FIRST_FACE, INTERNAL_FACE, Face
from forwarder.wire.name import from_uri, to_uri

log = logging.getLogger("feednet")

_WALL_S = 10.0
_ANYWHERE = ("0.0.0.0", "::")


def attach_management(host: Host, faces: Faces, authorisation: Authorisation) -> Management:
    """Attach the management protocol under /localhost/nfd."""
    started = faces.driver.clock()
    management = Management(
        host.forwarder, faces, authorisation=authorisation, started=started, stir=host.stir
    )
    management.extend(FeednetModule(host.forwarder, management.counters, host, faces.driver.drops))
    host.attach(management, INTERNAL_FACE)
    management.start()
    return management


class Daemon:
    """One running forwarder.

    Args:
        plan: its configuration, resolved.
        loop: the running event loop.

    Raises ConfigError.

    Attributes:
        forwarder, host, faces, management: its parts.
        started: start time, ns since 1970.
    """

    def __init__(self, plan: Plan, loop: asyncio.AbstractEventLoop) -> None:
        self._plan = plan
        self._loop = loop
        config = plan.config
        self.forwarder = _forwarder(config)
        self._strategies: dict[bytes, tuple[str, Strategy]] = {}
        self._choose(plan)
        self.host = Host(self.forwarder, FIRST_FACE)
        self.faces = Faces(self.host, loop, is_marking=config.congestion_marking)
        self.started = self.faces.driver.clock()
        self.management = attach_management(self.host, self.faces, plan.authorisation)
        self._neighbours = Neighbours(self.faces, self.management.rib, loop, config.udp.mtu)
        self._multicast: list[Face] = []
        self._ethernet: list[Face] = []
        self._is_settled = loop.create_future()

    def start(self) -> list[str]:
        """Open everything; return the FaceUris to listen at. Raises ConfigError, and has closed all then."""
        try:
            self._update_wall_offset()
            self._listen()
            self._is_settled = self._apply(self._plan)
        except (OSError, ValueError) as error:
            self.close()
            raise ConfigError(str(error)) from error
        self.faces.driver.start()
        return self.faces.channels()

    async def reload(self, plan: Plan) -> list[str]:
        """Apply another plan, as far as a running forwarder can; see forwarder.daemon.neighbours.

        Returns the keys that take effect after a restart only. Raises ConfigError without having changed
        anything.
        """
        await self._is_settled
        self._choose(plan)
        self.management.reauthorise(plan.authorisation, self.faces.driver.clock())
        self._is_settled = self._apply(plan)
        self.faces.driver.schedule()
        await self._is_settled
        self.faces.driver.schedule()
        return waiting(self._plan.config, plan.config)

    def _apply(self, plan: Plan) -> asyncio.Future[None]:
        config, forwarder = plan.config, self.forwarder
        forwarder.unsolicited = config.content_store.unsolicited
        forwarder.regions = {from_uri(region) for region in config.regions}
        forwarder.cs.capacity = config.content_store.capacity
        groups: dict[tuple[bytes, int], int] = {}
        for faces, section in ((self._multicast, config.multicast), (self._ethernet, config.ethernet)):
            groups |= {
                (from_uri(each), face.number): section.cost for face in faces for each in section.routes
            }
        return self._neighbours.apply(plan.neighbours, groups)

    def _choose(self, plan: Plan) -> None:
        """Choose the strategies of a plan in place of those of the plan before. Raises ConfigError."""
        running = dict(self.forwarder.strategies.items())
        chosen: dict[bytes, tuple[str, Strategy]] = {}
        for prefix, (text, kind, parameters) in plan.strategies.items():
            known = self._strategies.get(prefix)
            if known is not None and known[0] == text and running.get(prefix) is known[1]:
                chosen[prefix] = known  # keeps its measurements
                continue
            try:
                chosen[prefix] = (text, kind(self.forwarder, parameters))
            except ValueError as error:
                raise ConfigError(f"strategies: {to_uri(prefix)}: {error}") from error
        for prefix, (_, strategy) in chosen.items():
            if running.get(prefix) is not strategy:
                self.forwarder.strategies.set(prefix, strategy)
        for prefix in self._strategies.keys() - chosen.keys():
            if running.get(prefix) is self._strategies[prefix][1]:  # else a command has chosen another one
                self._unset(prefix)
        self._strategies = chosen

    def _unset(self, prefix: bytes) -> None:
        if prefix:
            self.forwarder.strategies.unset(prefix)
        else:
            self.forwarder.choose_strategy(prefix, BestRoute)

    def _update_wall_offset(self) -> None:
        """Periodically update the management's offset between wall clock and monotonic clock."""
        self.management.wall_offset = time.time_ns() - self.faces.driver.clock()
        self._loop.call_later(_WALL_S, self._update_wall_offset)

    def _listen(self) -> None:
        config, faces = self._plan.config, self.faces
        if config.unix.listen:
            path = Path(config.unix.path) if config.unix.path else unix.default_path()
            faces.listen_unix(path, limit=config.unix.max_faces)
        tcp, udp = config.tcp, config.udp
        for address in tcp.addresses if tcp.listen else ():
            _listen_ip("tcp", address, tcp.port, lambda a: faces.listen_tcp(a, tcp.port, limit=tcp.max_faces))
        for address in udp.addresses if udp.listen else ():
            _listen_ip(
                "udp",
                address,
                udp.port,
                lambda a: faces.listen_udp(
                    a,
                    udp.port,
                    limit=udp.max_faces,
                    mtu=udp.mtu,
                    idle_ns=round(udp.idle_s * SECOND),
                    segmentation=udp.segmentation,
                ),
            )

        self._join()

    def _join(self) -> None:
        """Open the sockets that are bound to interfaces."""
        faces, multicast, ethernet = self.faces, self._plan.config.multicast, self._plan.config.ethernet
        for interface in interfaces(multicast.interfaces):
            groups = [(interface.ipv4, multicast.group_ipv4), (interface.ipv6, multicast.group_ipv6)]
            for address, group in groups:
                if interface.is_multicast and not interface.is_loopback and address is not None:
                    with _named(f"multicast at {interface.name}"):
                        face = faces.join_udp(interface, group, multicast.port, mtu=multicast.mtu)
                        self._multicast.append(face)
        for interface in interfaces(ethernet.interfaces):
            if interface.mac is None or interface.is_loopback:
                continue
            with _named(f"ethernet at {interface.name}"):
                faces.open_ethernet(
                    interface,
                    listen=ethernet.listen,
                    limit=ethernet.max_faces,
                    idle_ns=round(ethernet.idle_s * SECOND),
                )
                if ethernet.multicast:
                    self._ethernet.append(faces.join_ethernet(interface, ethernet.group))

    def close(self) -> None:
        """Close all faces and channels, and remove the socket file."""
        self.faces.close()


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Prefix an OSError's text with what could not be opened."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{what}: {error.strerror or error}") from error


def _listen_ip(kind: str, address: str, port: int, listen: Callable[[str], object]) -> None:
    try:
        listen(address)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT and address in _ANYWHERE:
            log.info("%s: this machine has no such addresses: %s", kind, address)
            return
        hint = "; another forwarder may be running" if error.errno == errno.EADDRINUSE else ""
        raise OSError(f"{kind} port {port} at {address}: {error.strerror}{hint}") from error


def _forwarder(config: Config) -> Forwarder:
    return Forwarder(
        rng=Random(),
        cs_capacity=config.content_store.capacity,
        cs_policy=config.content_store.policy,
        controlled_push=config.controlled_push,
    )
