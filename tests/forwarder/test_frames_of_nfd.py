"""Frames and datasets that a real NFD has sent, read without it; tests/data/nfd.txt says which NFD."""

from pathlib import Path

import pytest

from forwarder.daemon import datasets
from forwarder.links.link import LinkService
from forwarder.tables.face import Face
from forwarder.wire.lp import NO_ROUTE, parse_lp
from forwarder.wire.name import to_uri
from forwarder.wire.packet import parse_data, parse_interest

MTU = 160
CONTENT = bytes(range(150))


def read() -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    text = (Path(__file__).parents[1] / "data" / "nfd.txt").read_text(encoding="utf-8")
    for line in text.splitlines()[1:]:
        if line.startswith(" "):
            found[next(reversed(found))].append(bytes.fromhex(line))
        else:
            found[line] = []
    return found


SENT = read()


def link(*, is_reliable: bool) -> LinkService:
    face = Face(1)
    face.is_reliable = is_reliable
    return LinkService(MTU, face=face, overhead=0)


def test_fragments_join_although_their_sequence_begins_at_its_end() -> None:
    """Each NFD begins with the last number that there is, and goes on with 0."""
    frames = SENT["fragments"]
    assert [parse_lp(frame).sequence for frame in frames] == [(1 << 64) - 1, 0]
    for order in (frames, frames[::-1]):
        end = link(is_reliable=False)
        first, whole = (end.receive(frame, 0) for frame in order)
        assert first is None
        assert whole is not None
        data = parse_data(parse_lp(whole).fragment)
        assert (to_uri(data.name), data.content) == ("/p0/1", CONTENT)


def test_frames_that_nfd_repeats_are_acknowledged_and_count_once() -> None:
    """A repetition has the same Sequence and another TxSequence."""
    end = link(is_reliable=True)
    frames = SENT["reliable"]
    first, again = frames[:3], frames[3:]
    assert parse_lp(first[0]).acks == [5]  # with what we had sent
    results = [end.receive(frame, number) for number, frame in enumerate(frames)]
    assert [result is not None for result in results] == [False, False, True, False, False, False]
    assert results[2] is not None
    assert parse_data(parse_lp(results[2]).fragment).content == CONTENT
    assert end.reliability is not None
    assert end.reliability.duplicates == len(again)
    deadline = end.next_deadline()
    assert deadline is not None
    end.wake(deadline)
    acks = [ack for frame in end.take_frames() for ack in parse_lp(frame).acks]
    assert sorted(acks) == [parse_lp(frame).tx_sequence for frame in frames]


def test_an_nfd_that_starts_anew_is_heard_although_it_counts_from_the_same_number() -> None:
    end = link(is_reliable=True)
    for number, frame in enumerate(SENT["reliable"][:3]):
        end.receive(frame, number)
    other = bytearray(SENT["reliable-nack"][0])
    sequence = other.index(bytes.fromhex("5108")) + 2
    other[sequence : sequence + 8] = bytes([255]) * 8
    assert end.receive(bytes(other), 10) is not None


@pytest.mark.parametrize("name", ["nack", "reliable-nack"])
def test_a_nack_names_its_reason_and_its_interest(name: str) -> None:
    nack = parse_lp(SENT[name][0])
    assert nack.nack_reason == NO_ROUTE
    refused = parse_interest(nack.fragment)
    assert (refused.nonce, refused.hop_limit) == (0x01020304, 2)  # it has been taken in, and counted


def test_nfd_passes_on_a_credit_only_without_a_hop_limit() -> None:
    """It writes an Interest anew when it has counted HopLimit, and leaves out what it does not know.

    LLIs have one: beyond NFD they are classic Interests.
    """
    credit = bytes.fromhex("f00108")
    (bare, limited), (bare_came, limited_came) = SENT["lli-sent"], SENT["lli-forwarded"]
    assert bare == bare_came
    assert bare.endswith(credit)
    assert limited.endswith(bytes.fromhex("220109") + credit)
    assert limited_came[2:] == limited[2 : -len(credit) - 1] + b"\x08"
    assert parse_interest(limited_came).hop_limit == 8


class Told:
    """A client for which NFD has answered."""

    def fetch(self, uri: str, timeout_s: float = 0.0) -> bytes:
        name = uri.removeprefix("/localhost/nfd/")
        if name not in SENT:
            raise datasets.Unanswered(uri)
        return SENT[name][0]


def test_datasets_are_read() -> None:
    read = datasets.snapshot(Told())  # type: ignore[arg-type]
    assert read["general"]["version"] == "24.07-31-gfe044ce3"
    assert "feednet" not in read
    faces = {face["remote"]: face for face in read["faces"]}
    assert faces["internal://"]["face"] == 1
    udp = next(face for uri, face in faces.items() if uri.startswith("udp4://"))
    assert (udp["mtu"], udp["scope"], udp["persistency"]) == (MTU, "non-local", "permanent")
    assert {row["prefix"] for row in read["rib"]} == {"/fwd0", "/fwd2", "/localhost/nfd"}
    assert {row["prefix"] for row in read["fib"]} >= {"/fwd0", "/localhost/nfd"}
    assert read["cs"]["capacity"] == 65536
    assert {row["prefix"]: row["strategy"] for row in read["strategies"]} == {
        "/": "/localhost/nfd/strategy/best-route/v=5",
        "/localhost": "/localhost/nfd/strategy/multicast/v=5",
        "/localhost/nfd": "/localhost/nfd/strategy/best-route/v=5",
    }
