"""The daemon: one forwarder with its faces, from a configuration, until it is told to end."""

import asyncio
import errno
import logging
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from forwarder import strategies
from forwarder.daemon.config import Config, ConfigError, FaceSection
from forwarder.face import FIRST_FACE, INTERNAL_FACE, Face, Persistency
from forwarder.face_system import RELIABILITY, FaceParameters, Outcome
from forwarder.faces import unix
from forwarder.faces.netif import interfaces
from forwarder.faces.system import Faces
from forwarder.faces.table import SECOND
from forwarder.faces.uri import canonize
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.management import Authorisation, Management
from forwarder.management.feednet import FeednetModule
from forwarder.rib import Origin, Route
from forwarder.wire.name import from_uri

log = logging.getLogger("feednet")

_RETRY_S = 5.0
_WALL_S = 10.0
_ANYWHERE = ("0.0.0.0", "::")


def attach_management(host: Host, faces: Faces, config: Config) -> Management:
    """Attach what answers commands and datasets under /localhost/nfd; raise ValueError."""
    path = config.authorizations
    authorisation = Authorisation() if path is None else Authorisation.load(Path(path))
    management = Management(host.forwarder, faces, authorisation=authorisation, started=faces.driver.clock())
    management.extend(FeednetModule(host.forwarder, management.counters, host, faces.driver.drops))
    host.attach(management, INTERNAL_FACE)
    management.start()
    return management


class Daemon:
    """One running forwarder.

    Args:
        config: what it is to be.
        loop: the running event loop.

    Raises ConfigError.

    Attributes:
        forwarder, host, faces: its parts.
    """

    def __init__(self, config: Config, loop: asyncio.AbstractEventLoop) -> None:
        self._config = config
        self._loop = loop
        self.forwarder = _forwarder(config)
        self.host = Host(self.forwarder, FIRST_FACE)
        self.faces = Faces(self.host, loop, is_marking=config.congestion_marking)

    def start(self) -> list[str]:
        """Open everything; return the FaceUris to listen at. Raises ConfigError, and has closed all then."""
        try:
            self._management = attach_management(self.host, self.faces, self._config)
            self._follow_the_wall()
            self._listen()
            for wanted in self._config.faces:
                self._open(wanted, str(canonize(wanted.uri)))
        except (OSError, ValueError) as error:
            self.close()
            raise ConfigError(str(error)) from error
        self.faces.driver.start()
        return self.faces.channels()

    def _follow_the_wall(self) -> None:
        """Tell the management now and then how far the machine's clock has been set since the start."""
        self._management.wall_offset = time.time_ns() - self.faces.driver.clock()
        self._loop.call_later(_WALL_S, self._follow_the_wall)

    def _listen(self) -> None:
        config, faces = self._config, self.faces
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
        """Open what is bound to interfaces."""
        faces, multicast, ethernet = self.faces, self._config.multicast, self._config.ethernet
        for interface in interfaces(multicast.interfaces):
            groups = [(interface.ipv4, multicast.group_ipv4), (interface.ipv6, multicast.group_ipv6)]
            for address, group in groups:
                if interface.is_multicast and not interface.is_loopback and address is not None:
                    with _named(f"multicast at {interface.name}"):
                        face = faces.join_udp(interface, group, multicast.port, mtu=multicast.mtu)
                        self._route(multicast.routes, face, multicast.cost)
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
                    face = faces.join_ethernet(interface, ethernet.group)
                    self._route(ethernet.routes, face, ethernet.cost)

    def _open(self, wanted: FaceSection, uri: str) -> None:
        """Make a face that the configuration names, and its routes once it stands."""
        parameters = FaceParameters(
            uri=uri,
            local_uri=None if wanted.interface is None else f"dev://{wanted.interface}",
            persistency=Persistency[wanted.persistency.upper()],
            mtu=wanted.mtu,
            flags=RELIABILITY if wanted.reliable else None,
            mask=RELIABILITY if wanted.reliable else None,
        )

        def reply(outcome: Outcome) -> None:
            if outcome.face is not None:
                self._route(wanted.routes, outcome.face, wanted.cost)
            elif outcome.code == 504:
                log.warning("%s: %s; trying again", wanted.uri, outcome.text)
                self._loop.call_later(_RETRY_S, self._open, wanted, uri)
            else:
                log.error("%s: %s", wanted.uri, outcome.text)

        self.faces.create(parameters, self.faces.driver.clock(), reply)

    def _route(self, prefixes: Iterable[str], face: Face, cost: int) -> None:
        for prefix in prefixes:
            self._management.rib.register(Route(from_uri(prefix), face.number, Origin.STATIC, cost))

    def close(self) -> None:
        """Close all faces and channels, and remove the socket file."""
        self.faces.close()


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Let an OSError say what could not be opened."""
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
    for path in config.strategy_files:
        try:
            strategies.load(Path(path))
        except ValueError as error:
            raise ConfigError(str(error)) from error
    forwarder = Forwarder(
        rng=Random(),
        cs_capacity=config.content_store.capacity,
        cs_policy=config.content_store.policy,
        controlled_push=config.controlled_push,
    )
    forwarder.unsolicited = config.content_store.unsolicited
    forwarder.regions = {from_uri(region) for region in config.regions}
    for choice in config.strategies:
        try:
            forwarder.choose_strategy(from_uri(choice.prefix), *strategies.parse(choice.strategy))
        except ValueError as error:
            raise ConfigError(f"strategies: {choice.prefix}: {error}") from error
    return forwarder


def raise_file_limit() -> None:
    """Allow this process as many open files as its user may: every face takes one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def run(config: Config, on_ready: Callable[[list[str]], None]) -> None:
    """Run a forwarder until SIGINT or SIGTERM; `on_ready` is told where it listens. Raises ConfigError."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(interrupt, ended.set)
    raise_file_limit()
    daemon = Daemon(config, loop)
    on_ready(daemon.start())
    try:
        await ended.wait()
    finally:
        log.info("closing")
        daemon.close()
