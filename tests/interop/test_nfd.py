"""The real NFD and its nfdc beside `feednet forward`, where they are on PATH."""

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import getrandbits

import pytest
from daemon_process import CONFIG, DaemonProcess, running, wait_until
from nfd_process import WHY_NOT, App, Nfd, command, nfd, nfdc

from forwarder.daemon.commands import register
from forwarder.daemon.datasets import Client, snapshot
from forwarder.face import Persistency
from forwarder.face_system import CONGESTION_MARKING, RELIABILITY
from forwarder.wire.lp import NO_ROUTE, make_lp
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import make_data, make_interest, parse_data, parse_interest

pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

MTU = 1000


def interest(name: str, **fields: int) -> bytes:
    return make_interest(from_uri(name), nonce=getrandbits(32), **fields)  # type: ignore[arg-type]


@contextmanager
def serving(path: Path, prefix: str) -> Iterator[App]:
    """An application that has registered a prefix."""
    with closing(App(path)) as app:
        app.say(register(from_uri(prefix), nonce=getrandbits(64), time_ms=time.time_ns() // 10**6))
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


# nfdc, and our daemon.


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("daemon")) as made:
        yield made


def said(daemon: DaemonProcess, *words: str) -> str:
    done = nfdc(daemon.path, *words)
    assert (done.returncode, done.stderr) == (0, ""), (words, done.stdout, done.stderr)
    return done.stdout


def test_nfdc_reads_everything(daemon: DaemonProcess) -> None:
    report = said(daemon, "status", "report")
    for title in (
        "General NFD status",
        "Channels",
        "Faces",
        "FIB",
        "RIB",
        "CS information",
        "Strategy choices",
    ):
        assert f"{title}:" in report
    assert "version=feednet" in report
    assert f"unix://{daemon.path}" in report
    assert "<status>" in said(daemon, "status", "report", "xml") or "nfdStatus" in said(
        daemon, "status", "report", "xml"
    )


def test_nfdc_makes_changes_and_ends_faces(daemon: DaemonProcess) -> None:
    made = said(daemon, "face", "create", "udp://127.0.0.1:7777")
    number = re.search(r"face-created id=(\d+) local=udp4://\S+ remote=udp4://127.0.0.1:7777", made)
    assert number is not None, made
    assert "persistency=persistent" in made
    again = said(daemon, "face", "create", "udp://127.0.0.1:7777")
    assert f"face-exists id={number[1]}" in again
    words = ("persistency", "permanent", "mtu", "1200", "reliability", "on", "congestion-marking", "off")
    changed = said(daemon, "face", "create", "udp://127.0.0.1:7777", *words)
    assert "face-updated" in changed
    assert "reliability=on" in changed
    assert "congestion-marking=off" in changed
    assert "mtu=1200" in changed
    shown = said(daemon, "face", "show", number[1])
    assert "permanent" in shown
    assert "flags={lp-reliability" in shown.replace(" ", "") or "lp-reliability" in shown
    assert f"faceid={number[1]}" in said(daemon, "face", "list", "remote", "udp://127.0.0.1:7777")
    assert "destroyed" in said(daemon, "face", "destroy", number[1])
    gone = nfdc(daemon.path, "face", "show", number[1])
    assert gone.returncode == 3
    assert "Face not found" in gone.stderr


def test_nfdc_makes_changes_and_ends_routes(daemon: DaemonProcess) -> None:
    said(daemon, "face", "create", "udp://127.0.0.1:7778")
    added = said(daemon, "route", "add", "/far", "udp://127.0.0.1:7778", "cost", "7", "expires", "100000")
    assert re.search(
        r"route-add-accepted prefix=/far nexthop=\d+ origin=static cost=7 flags=child-inherit", added
    )
    assert re.search(r"prefix=/far nexthop=\d+ origin=static cost=7", said(daemon, "route", "list"))
    assert "prefix=/far" in said(daemon, "route", "show", "/far")
    assert re.search(r"/far nexthops=\{faceid=\d+ \(cost=7\)\}", said(daemon, "fib", "list"))
    assert "route-removed" in said(daemon, "route", "remove", "/far", "udp://127.0.0.1:7778")
    assert "/far" not in said(daemon, "route", "list")


def test_nfdc_chooses_strategies(daemon: DaemonProcess) -> None:
    chosen = said(daemon, "strategy", "set", "/s", "/localhost/nfd/strategy/asf")
    assert "strategy-set prefix=/s strategy=/localhost/nfd/strategy/asf/v=" in chosen
    assert "prefix=/s" in said(daemon, "strategy", "list")
    assert "strategy=/localhost/nfd/strategy/asf" in said(daemon, "strategy", "show", "/s/x")
    refused = nfdc(daemon.path, "strategy", "set", "/s", "/localhost/nfd/strategy/no-such")
    assert refused.returncode == 7
    assert "Unknown strategy" in refused.stderr
    assert "strategy-unset prefix=/s" in said(daemon, "strategy", "unset", "/s")


def test_nfdc_manages_the_content_store(daemon: DaemonProcess) -> None:
    changed = said(daemon, "cs", "config", "capacity", "1000", "admit", "off")
    assert "cs-config-updated capacity=1000 admit=off serve=on" in changed
    said(daemon, "cs", "config", "admit", "on", "capacity", "65536")
    with serving(daemon.path, "/c") as producer, closing(App(daemon.path)) as consumer:
        for number in range(300):
            consumer.say(interest(f"/c/{number}"))
            asked = parse_interest(producer.got().fragment)
            producer.say(make_data(asked.name, b"x", freshness_ms=9000))
            assert parse_data(consumer.got().fragment).name == asked.name
    assert "cs-erased prefix=/c count=300" in said(daemon, "cs", "erase", "/c")
    assert "nEntries" in said(daemon, "cs", "info")


# NFD and our daemon, beside each other.


class Pair:
    """NFD and our daemon with a face to each other.

    Attributes:
        nfd, ours: the two.
        face_of_nfd, face_of_ours: that of NFD, towards us; ours, towards NFD.
    """

    def __init__(self, theirs: Nfd, ours: DaemonProcess, *, flags: int) -> None:
        self.nfd = theirs
        self.ours = ours
        mask = RELIABILITY | CONGESTION_MARKING
        wanted = {"persistency": int(Persistency.PERMANENT), "mtu": MTU, "flags": flags, "mask": mask}
        to_ours, to_nfd = f"udp4://127.0.0.1:{ours.port('udp4')}", f"udp4://127.0.0.1:{theirs.port}"
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


@pytest.fixture(
    scope="module", params=[0, RELIABILITY, CONGESTION_MARKING], ids=["plain", "reliable", "marking"]
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("pair")
    (directory / "ours").mkdir()
    with nfd(directory / "nfd", mtu=MTU) as theirs, running(directory / "ours", CONFIG) as ours:
        yield Pair(theirs, ours, flags=request.param)
        assert "Traceback" not in ours.log.read_text()
        warnings = [line for line in theirs.log.read_text().splitlines() if " WARN: " in line]
        assert [line for line in warnings if "certfile any" not in line] == []


def test_packets_of_all_sizes_cross(pair: Pair) -> None:
    """Whole, in the fewest fragments, and of the largest size that there is."""
    for way, (near, far) in enumerate(pair.ways()):
        pair.route(f"/big{way}", near)
        with serving(far, f"/big{way}") as producer, closing(App(near)) as consumer:
            for size in (0, 1, *range(MTU - 120, MTU + 20), 3 * MTU, 8600):
                consumer.say(interest(f"/big{way}/{size}"))
                asked = parse_interest(producer.got().fragment)
                data = make_data(asked.name, bytes(size))
                producer.say(data)
                assert consumer.got().fragment == data


def test_large_interests_cross(pair: Pair) -> None:
    for way, (near, far) in enumerate(pair.ways()):
        pair.route(f"/ask{way}", near)
        with serving(far, f"/ask{way}") as producer, closing(App(near)) as consumer:
            name = from_uri(f"/ask{way}") + from_uri("/" + "x" * 5000)
            consumer.say(make_interest(name, nonce=1))
            assert parse_interest(producer.got().fragment).name == name


def test_nacks_cross(pair: Pair) -> None:
    for way, (near, _) in enumerate(pair.ways()):
        pair.route(f"/nowhere{way}", near)
        with closing(App(near)) as consumer:
            asked = interest(f"/nowhere{way}")
            consumer.say(asked)
            nack = consumer.got()
            assert nack.nack_reason == NO_ROUTE
            assert parse_interest(nack.fragment).nonce == parse_interest(asked).nonce


def test_marks_of_congestion_and_pit_tokens_cross(pair: Pair) -> None:
    for way, (near, far) in enumerate(pair.ways()):
        pair.route(f"/mark{way}", near)
        with serving(far, f"/mark{way}") as producer, closing(App(near)) as consumer:
            consumer.say(make_lp(interest(f"/mark{way}/1"), congestion_mark=1, pit_token=b"token"))
            asked = producer.got()
            assert asked.congestion_mark == 1
            data = make_data(parse_interest(asked.fragment).name, b"x")
            producer.say(make_lp(data, congestion_mark=1, pit_token=asked.pit_token))
            got = consumer.got()
            assert (got.fragment, got.congestion_mark, got.pit_token) == (data, 1, b"token")


def test_names_with_a_scope_stay_in_it(pair: Pair) -> None:
    """/localhost never leaves a machine; /localhop goes one hop, to an application there."""
    for way, (near, far) in enumerate(pair.ways()):
        for scope, crosses in (("/localhost", False), ("/localhop", True)):
            prefix = f"{scope}/way{way}"
            pair.route(prefix, near)
            with serving(far, prefix) as producer, closing(App(near)) as consumer:
                consumer.say(interest(f"{prefix}/1", lifetime_ms=500))
                heard = producer.hear(0.3)
                assert (heard is not None) == crosses, (prefix, heard)
                if heard is not None:
                    data = make_data(parse_interest(heard.fragment).name, b"x")
                    producer.say(data)
                    assert consumer.got().fragment == data


def test_localhop_goes_no_further(pair: Pair) -> None:
    """What has come from a neighbour goes to no neighbour: the consumer hears a Nack at most."""
    for way, (near, far) in enumerate(pair.ways()):
        prefix = f"/localhop/loop{way}"
        pair.route(prefix, near)
        pair.route(prefix, far)
        with closing(App(near)) as consumer:
            consumer.say(interest(f"{prefix}/1", lifetime_ms=300))
            heard = consumer.hear(0.6)
            assert heard is None or heard.nack_reason is not None


def test_hop_limits_count_on_both(pair: Pair) -> None:
    for way, (near, far) in enumerate(pair.ways()):
        pair.route(f"/hops{way}", near)
        with serving(far, f"/hops{way}") as producer, closing(App(near)) as consumer:
            for limit, left in ((1, None), (2, 0), (255, 253)):
                asked = make_interest(
                    from_uri(f"/hops{way}/{limit}"), nonce=limit, hop_limit=limit, lifetime_ms=400
                )
                consumer.say(asked)
                heard = producer.hear(0.3) if left is None else producer.got()
                assert left == (None if heard is None else parse_interest(heard.fragment).hop_limit)


def test_each_reads_the_other(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    """`feednet status` reads NFD's datasets, and both count the face between them."""
    with closing(Client(pair.nfd.path)) as client:
        read = snapshot(client)
    assert read["general"]["version"][0].isdigit()
    face = next(face for face in read["faces"] if face["face"] == pair.face_of_nfd)
    assert face["mtu"] == MTU
    assert face["in_data"] > 0
    assert to_uri(from_uri("/big0")) in [row["prefix"] for row in read["rib"]]
