"""NFD and our daemon with a face to each other, and applications at both."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import getrandbits

from daemon_process import DaemonProcess, wait_until
from nfd_process import App, Nfd, command

from forwarder.daemon.commands import Signer
from forwarder.daemon.datasets import Client, snapshot
from forwarder.tables.face import Persistency
from forwarder.tables.face_system import CONGESTION_MARKING, RELIABILITY
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest

MTU = 1000


def interest(name: str, **fields: int) -> bytes:
    return make_interest(from_uri(name), nonce=getrandbits(32), **fields)  # type: ignore[arg-type]


@contextmanager
def serving(path: Path, prefix: str) -> Iterator[App]:
    """An application that has registered a prefix."""
    with closing(App(path)) as app:
        app.say(Signer().register(from_uri(prefix)))
        assert b"\x66\x01\xc8" in app.got().fragment  # StatusCode 200
        routed(path, prefix)
        yield app


def routed(path: Path, prefix: str) -> None:
    """Wait until a route stands: NFD answers that it has been registered a little sooner."""
    with closing(Client(path)) as client:
        wait_until(
            lambda: prefix in [row["prefix"] for row in snapshot(client, with_own=False)["fib"]],
            f"a route to {prefix}",
        )


class Pair:
    """NFD and our daemon with a face to each other.

    Attributes:
        nfd, ours: the two.
        face_of_nfd, face_of_ours: that of NFD, towards us; ours, towards NFD.

    `ports`, if given, are where NFD and where we send to, on loopback.
    """

    def __init__(
        self, theirs: Nfd, ours: DaemonProcess, *, flags: int = 0, ports: Sequence[int] | None = None
    ) -> None:
        self.nfd = theirs
        self.ours = ours
        to_us, to_them = ports or (ours.port("udp4"), theirs.port)
        mask = RELIABILITY | CONGESTION_MARKING
        wanted = {"persistency": int(Persistency.PERMANENT), "mtu": MTU, "flags": flags, "mask": mask}
        to_ours, to_nfd = f"udp4://127.0.0.1:{to_us}", f"udp4://127.0.0.1:{to_them}"
        self.face_of_nfd = command(theirs.path, "faces/create", uri=to_ours, **wanted).face
        self.face_of_ours = command(ours.path, "faces/create", uri=to_nfd, **wanted).face

    def route(self, prefix: str, path: Path) -> None:
        """Have one of the two, by its socket, send what is under a prefix to the other."""
        face = self.face_of_nfd if path == self.nfd.path else self.face_of_ours
        command(path, "rib/register", name=prefix, face=face)
        routed(path, prefix)

    def ways(self) -> list[tuple[Path, Path]]:
        """From a consumer's forwarder to a producer's, both ways."""
        return [(self.nfd.path, self.ours.path), (self.ours.path, self.nfd.path)]
