"""NFD's own client, nfdc, and `feednet forward`; where nfdc is on PATH."""

import re
from collections.abc import Iterator
from contextlib import closing

import pytest
from daemon_process import DaemonProcess, running
from nfd_pair import interest, serving
from nfd_process import WHY_NOT, App, nfdc

from forwarder.wire.packet import make_data, parse_data, parse_interest

pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


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
