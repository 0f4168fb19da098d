"""feednet status against a node that is served at a socket."""

import json
import socket
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result
from memory_faces import START, Node
from rich.console import Console
from served_node import served

from forwarder.daemon.datasets import Client, DatasetError, snapshot
from forwarder.management.feednet import FeednetModule
from forwarder.tables.rib import Route
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest
from testbed.cli.main import feednet
from testbed.cli.nodes.status import _duration, _short, rates, render
from testbed.errors import UserError


def node_with_a_feed() -> Node:
    """A node that relays a feed: face 257 has credit for 20 items, face 258 is where they come from."""
    node = Node()
    module = FeednetModule(node.forwarder, node.management.counters)
    node.management.extend(module)
    for number in range(2):
        node.faces.add(f"udp4://192.0.2.{number}:6363", local=False)
    feed = feed_name(from_uri("/site"), Random(1).randbytes(32))
    node.management.rib.register(Route(feed, 258, 255, 10))
    lli = make_interest(item_name(feed, 5), nonce=7, lifetime_ms=60_000, send_credit=20)
    node.forwarder.receive(257, lli, START)
    node.forwarder.take_outputs()
    return node


def run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(feednet, ["status", "--socket", str(path), *arguments])


def test_as_json(tmp_path: Path) -> None:
    node = node_with_a_feed()
    with served(node, tmp_path / "nfd.sock"):
        result = run(tmp_path / "nfd.sock", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["general"]["version"].startswith("feednet")
    assert [face["face"] for face in told["faces"]] == [1, 254, 255, 256, 257, 258, 259]
    assert told["faces"][4]["scope"] == "non-local"
    assert {"prefix": "/localhost/nfd", "hops": [{"face": 1, "cost": 0}]} in told["fib"]
    (hops,) = [entry["hops"] for entry in told["rib"] if entry["prefix"] != "/localhost/nfd"]
    assert hops == [{"face": 258, "origin": 255, "cost": 10, "flags": 1}]
    assert told["strategies"] == [{"prefix": "/", "strategy": "/localhost/nfd/strategy/best-route/v=5"}]
    (feed,) = told["feednet"]["feeds"]["list"]
    assert feed["upstream"]["face"] == 258
    (downstream,) = feed["downstreams"]
    assert (downstream["face"], downstream["next"], downstream["limit"], downstream["credit"]) == (
        257,
        5,
        24,
        20,
    )
    assert told["feednet"]["pit"]["network_entries"] == 1


def test_for_people(tmp_path: Path) -> None:
    node = node_with_a_feed()
    with served(node, tmp_path / "nfd.sock"):
        result = run(tmp_path / "nfd.sock")
    assert result.exit_code == 0, result.output
    for expected in ("feednet", "Faces", "udp4://192.0.2.0:6363", "best-route", "Feeds", "257: 5..24"):
        assert expected in result.output


def test_a_forwarder_that_is_not_ours(tmp_path: Path) -> None:
    with served(Node(), tmp_path / "nfd.sock"):
        result = run(tmp_path / "nfd.sock", "--json")
    assert result.exit_code == 0, result.output
    assert "feednet" not in json.loads(result.output)


def test_many_faces_come_in_segments(tmp_path: Path) -> None:
    node = Node()
    for number in range(300):
        node.faces.add(f"udp4://192.0.2.1:{10000 + number}", local=False)
    with served(node, tmp_path / "nfd.sock"):
        assert len(json.loads(run(tmp_path / "nfd.sock", "--json").output)["faces"]) == 305
        assert "and 281 more" in run(tmp_path / "nfd.sock").output


def test_no_forwarder_is_one_line(tmp_path: Path) -> None:
    result = run(tmp_path / "none.sock")
    assert isinstance(result.exception, UserError)
    assert "no forwarder listens" in str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_forwarder_that_goes_is_one_line(tmp_path: Path) -> None:
    with served(Node(), tmp_path / "nfd.sock"):
        client = Client(tmp_path / "nfd.sock")
        snapshot(client)
    for _ in range(2):
        with pytest.raises(DatasetError, match="closed the connection"):
            snapshot(client)
    client.close()


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x06\x03\x07\x01\x08", b"\xff" * 40]
)
def test_what_does_not_speak_ndn_is_one_line(tmp_path: Path, answer: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "x.sock"))
        listening.listen()
        client = Client(tmp_path / "x.sock")
        other, _ = listening.accept()
        with other:
            other.sendall(answer)
            with pytest.raises(DatasetError, match="does not speak NDN"):
                snapshot(client)
    client.close()


def test_rates() -> None:
    def look(at_ms: int, *faces: tuple[int, int]) -> dict[str, Any]:
        return {
            "general": {"now_ms": at_ms},
            "faces": [{"face": face, "in_data": count} for face, count in faces],
        }

    before, after = look(1000, (1, 10), (2, 5)), look(1500, (1, 40), (3, 7))
    assert rates(after, before) == {1: {"in_data": 60.0}}
    assert rates(after, None) == {}
    assert rates(after, after) == {}


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0, "0"),
        (7, "7"),
        (7.25, "7.2"),
        (123.4, "123"),
        (9999, "9999"),
        (12_345, "12.3k"),
        (5e9, "5000M"),
        (1e13, "10.0T"),
    ],
)
def test_short_numbers(number: float, written: str) -> None:
    assert _short(number) == written


def test_durations() -> None:
    assert _duration(59) == "00:00:59"
    assert _duration(90_061) == "1 d 01:01:01"


def test_names_do_not_read_as_markup() -> None:
    now = {
        "general": {
            "version": "[bold]x",
            "started_ms": 0,
            "now_ms": 1000,
            "pit_entries": 0,
            "satisfied": 0,
            "unsatisfied": 0,
        },
        "faces": [{"face": 1, "remote": "[/]://"}],
        "fib": [{"prefix": "/[red]", "hops": []}],
        "rib": [],
        "cs": {},
        "strategies": [],
    }
    console = Console(record=True, width=100, file=StringIO(), markup=False, emoji=False)
    console.print(render(now, None))
    text = console.export_text()
    assert "[bold]x" in text
    assert "/[red]" in text
    assert "[/]://" in text
