"""The real NFD as a neighbour of `feednet forward`; where it is on PATH."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from daemon_process import CONFIG, running
from nfd_pair import MTU, Pair, interest, routed, serving
from nfd_process import WHY_NOT, App, command, nfd
from processes import drilled

from forwarder.daemon.commands import Signer
from forwarder.daemon.datasets import Client, snapshot
from forwarder.management.manager import LOCALHOP
from forwarder.management.parameters import ControlParameters, parse_response
from forwarder.tables.face_system import CONGESTION_MARKING, RELIABILITY
from forwarder.wire.lp import NO_ROUTE, make_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest, parse_data, parse_interest
from topologies.mininet import sandbox

pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


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


def test_each_reads_the_other(pair: Pair) -> None:
    """`feednet status` reads NFD's datasets, and both count the face between them."""
    with closing(Client(pair.nfd.path)) as client:
        read = snapshot(client)
    assert read["general"]["version"][0].isdigit()
    face = next(face for face in read["faces"] if face["face"] == pair.face_of_nfd)
    assert face["mtu"] == MTU
    assert face["in_data"] > 0
    assert "/big0" in [row["prefix"] for row in read["rib"]]


def test_lost_frames_are_sent_again(tmp_path: Path) -> None:
    """Both ways over a wire that loses one frame in twenty: all Data come, each asked for once."""
    (tmp_path / "ours").mkdir()
    rng, lost, ended = Random(3), [0], threading.Event()
    with (
        bound() as left,
        bound() as right,
        nfd(tmp_path / "nfd", mtu=MTU) as theirs,
        running(tmp_path / "ours", CONFIG) as ours,
    ):
        ports = {left: ours.port("udp4"), right: theirs.port}

        def pass_on() -> None:
            while not ended.is_set():
                for sock in select.select([left, right], [], [], 0.05)[0]:
                    frame = sock.recv(9000)
                    other = right if sock is left else left
                    if rng.random() < 0.05:
                        lost[0] += 1
                    else:
                        other.sendto(frame, ("127.0.0.1", ports[sock]))

        wire = threading.Thread(target=pass_on)
        wire.start()
        try:
            pair = Pair(theirs, ours, flags=RELIABILITY, ports=[sock.getsockname()[1] for sock in ports])
            for way, (near, far) in enumerate(pair.ways()):
                pair.route(f"/lossy{way}", near)
                assert exchanged(near, far, f"/lossy{way}", 60) == 60
        finally:
            ended.set()
            wire.join()
    assert lost[0] > 10


def bound() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    return sock


def exchanged(near: Path, far: Path, prefix: str, count: int) -> int:
    """Ask for Data in fragments, 20 at a time; return how many have come."""
    with serving(far, prefix) as producer, closing(App(near)) as consumer:

        def serve() -> None:
            for _ in range(count):
                producer.say(make_data(parse_interest(producer.got().fragment).name, bytes(3000)))

        serving_it = threading.Thread(target=serve, daemon=True)
        serving_it.start()
        got = 0
        for number in range(count + 20):
            if number < count:
                consumer.say(interest(f"{prefix}/{number}", lifetime_ms=60_000))
            if number >= 20:
                got += consumer.got().nack_reason is None
        serving_it.join()
    return got


def test_neighbours_register_routes(tmp_path: Path) -> None:
    """By /localhop/nfd/rib, where the other lets them: each way."""
    open_, shut = 'authorizations = "open.toml"\n' + CONFIG, CONFIG
    for name, config in (("nfd", open_), ("ours", shut)):
        directory = tmp_path / name
        (directory / "ours").mkdir(parents=True)
        (directory / "ours" / "open.toml").write_text('[[localhop]]\ncertfile = "any"\n[[authorize]]\n' + ANY)
        is_ours = name == "ours"
        with (
            nfd(directory / "nfd", localhop=is_ours) as theirs,
            running(directory / "ours", config) as ours,
        ):
            pair = Pair(theirs, ours)
            near, far = pair.ways()[is_ours]
            pair.route("/localhop/nfd/rib", near)
            with closing(App(near)) as app:
                wanted = ControlParameters(name=from_uri("/mine"), cost=5).encode()
                verb = from_uri("/rib/register")
                app.say(Signer().command(verb, wanted, prefix=LOCALHOP, lifetime_ms=60_000))
                answer = parse_response(parse_data(app.got().fragment).content)
                assert answer.code == 200
                assert answer.body is not None
                assert answer.body.face == (pair.face_of_nfd if is_ours else pair.face_of_ours)
            routed(far, "/mine")


ANY = 'certfile = "any"\nprivileges = ["faces", "fib", "rib", "cs", "strategy-choice"]\n'


def test_each_learns_from_the_others_announcements(tmp_path: Path) -> None:
    """By self-learning: the first Interest is flooded, and its Data bring what makes a route."""
    (tmp_path / "ours").mkdir()
    with nfd(tmp_path / "nfd") as theirs, running(tmp_path / "ours", CONFIG) as ours:
        pair = Pair(theirs, ours)
        for path, _ in pair.ways():
            command(path, "strategy-choice/set", name="/l", strategy="/localhost/nfd/strategy/self-learning")
        for way, (near, far) in enumerate(pair.ways()):
            with serving(far, f"/l/{way}") as producer, closing(App(near)) as consumer:
                consumer.say(interest(f"/l/{way}/1"))
                asked = parse_interest(producer.got().fragment)
                producer.say(make_data(asked.name, b"x"))
                assert parse_data(consumer.got().fragment).name == asked.name
                routed(near, f"/l/{way}")


@pytest.mark.mininet
@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"no namespaces here: {sandbox.why_not()}")
def test_ethernet(tmp_path: Path) -> None:
    """To the group and to one neighbour, both ways, in fragments."""
    here = Path(__file__).parent
    said = drilled(here / "nfd_ethernet_drill.py", tmp_path, here.parent / "faces")
    ways = ("our group", "their group", "our neighbour", "their neighbour", "a Nack", "no Nack to the group")
    assert said == [*ways]
