"""The counters of a daemon over HTTP: as Prometheus's own parser reads them, and as JSON."""

import json
import re
import select
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon_process import CONFIG, DaemonProcess, running, wait_until
from patience import PATIENCE_S
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families

from forwarder.tables.face import PACKET_COUNTERS
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest

METRICS = "[metrics]\nlisten = true\nport = 0\n"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("metrics"), CONFIG + METRICS) as process:
        yield process


def address(daemon: DaemonProcess) -> str:
    wait_until(lambda: "counters at " in daemon.log.read_text(), "listening")
    found = re.search(r"counters at (http://127\.0\.0\.1:\d+)/metrics", daemon.log.read_text())
    assert found is not None
    return found[1]


def read(daemon: DaemonProcess, path: str, accept: str = "*/*") -> str:
    request = urllib.request.Request(address(daemon) + path, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        text: str = answer.read().decode()
        return text


def values(text: str, name: str, **labels: str) -> list[float]:
    """The samples of a name that have (at least) some labels."""
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    return [each.value for each in samples if each.name == name and labels.items() <= each.labels.items()]


def test_both_tell_what_has_passed(daemon: DaemonProcess) -> None:
    with daemon.connect() as sock:
        for number in range(7):
            sock.sendall(make_interest(from_uri(f"/nowhere/{number}"), nonce=number + 1))
            sock.recv(9000)
        told = json.loads(read(daemon, "/status.json"))
        text = read(daemon, "/metrics")
    assert told["counters"]["no_route"] == told["counters"]["out_nacks"] == 7
    assert told["reloads"] == {"done": 0, "refused": 0, "failed": 0}
    assert told["started_ms"] <= told["now_ms"]
    assert values(text, "feednet_events_total", event="no_route") == [7]
    assert values(text, "feednet_packets_total", direction="in", type="interests") == [7]
    assert values(text, "feednet_entries", table="content_store") == [0]
    assert values(text, "process_open_fds")
    (face,) = [each for each in told["faces"] if each["uri"].startswith("fd://")]
    labels = {"face": str(face["face"]), "uri": face["uri"]}
    for name in PACKET_COUNTERS:
        direction, kind = name.split("_")
        said = values(text, "feednet_face_packets_total", direction=direction, type=kind, **labels)
        assert said == [face[name]]
    assert values(text, "feednet_face_bytes_total", direction="in", **labels) == [face["in_bytes"]]


def test_every_counter_is_there_for_both(daemon: DaemonProcess) -> None:
    told = json.loads(read(daemon, "/status.json"))
    text = read(daemon, "/metrics")
    by_label = (("counters", "event"), ("feeds", "event"), ("management", "outcome"), ("drops", "reason"))
    for table, label in by_label:
        for name in told[table].keys() - set(PACKET_COUNTERS):
            samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
            assert any(each.labels.get(label) == name for each in samples), (table, name)


def test_openmetrics_is_given_to_those_that_ask_for_it(daemon: DaemonProcess) -> None:
    text = read(daemon, "/metrics", "application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    assert {family.name for family in open_families(text)} >= {"feednet_packets", "feednet_entries"}


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 "),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 "),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 "),
        (b"\xff\xfe\r\n\r\n", b"HTTP/1.1 405 "),
        (b"GET /metrics HTTP/1.1\r\nAccept: \xff\xff\r\n\r\n", b"HTTP/1.1 200 "),
        (b"GET /metrics HTTP/1.1\r\nAccept: text/plain; version=a.b\r\n\r\n", b"HTTP/1.1 200 "),
        (b"GET /metrics HTTP/1.1\r\n" + b"x" * 200_000, b""),
    ],
)
def test_anything_is_answered_or_closed_and_nothing_is_logged(
    daemon: DaemonProcess, request_: bytes, said: bytes
) -> None:
    before = daemon.log.read_text()
    host, port = address(daemon).removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as sock:
        got = b""
        try:
            sock.sendall(request_)
            while chunk := sock.recv(65536):
                got += chunk
        except ConnectionError:
            pass  # closed before all was read
    assert got.startswith(said)
    assert b"HEAD" not in request_ or got.endswith(b"\r\n\r\n")
    assert daemon.log.read_text() == before


def test_a_crowd_is_turned_away_and_takes_no_files_from_faces(daemon: DaemonProcess) -> None:
    files = daemon.files()
    host, port = address(daemon).removeprefix("http://").split(":")
    crowd = [socket.create_connection((host, int(port)), PATIENCE_S) for _ in range(64)]
    wait_until(lambda: len(select.select(crowd, [], [], 0)[0]) == len(crowd) - 16, "all but 16 are closed")
    assert daemon.files() <= files + 16
    for each in crowd:
        each.close()
    wait_until(lambda: daemon.files() == files, "all are closed")
    assert json.loads(read(daemon, "/status.json"))


def is_open_at_the_other_end(sock: socket.socket) -> bool:
    """Whether a process holds it there: what is closed with bytes to send has no inode (proc(5), net/tcp)."""
    ends = [f":{port:04X}" for port in (sock.getpeername()[1], sock.getsockname()[1])]
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any([row[1][-5:], row[2][-5:]] == ends and row[9] != "0" for row in rows)


def test_who_reads_nothing_is_cut_off(daemon: DaemonProcess) -> None:
    """Even if the answer is larger than the buffers of both ends' sockets."""
    faces = [daemon.connect() for _ in range(300)]
    wait_until(lambda: read(daemon, "/metrics").count("feednet_face_up{") > len(faces), "all are faces")
    host, port = address(daemon).removeprefix("http://").split(":")
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 100)  # small buffers at the other end, too
        sock.connect((host, int(port)))
        sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert sock.recv(1)
        assert is_open_at_the_other_end(sock), "all of it fits into buffers: this test tries nothing"
        wait_until(lambda: not is_open_at_the_other_end(sock), "closed at the other end")
    for face in faces:
        face.close()


def test_a_port_in_use_is_one_line_and_all_is_closed_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = CONFIG + METRICS.replace("port = 0", f"port = {taken.getsockname()[1]}")
        with pytest.raises(AssertionError) as failed, running(tmp_path, config):
            pass
    assert "feednet: metrics port" in str(failed.value)
    assert "Address already in use" in str(failed.value)
    assert not (tmp_path / "nfd.sock").exists()


def test_without_the_section_there_is_no_port(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        assert "counters" not in daemon.log.read_text()
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen("http://127.0.0.1:9636/metrics", timeout=1)
