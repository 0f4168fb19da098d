"""Blobs in segments: they cross a lossy link whole, and anything else is refused by its hash."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.units import MS, SECOND
from forwarder.wire.lp import make_lp, parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import Interest, make_data, parse_interest
from ssb.keys import blob_ref
from ssb.store.blobs import MemoryBlobs
from ssb_over_ndn.following.blobs import BlobFetch
from ssb_over_ndn.naming import (
    SEGMENT_BYTES,
    blob_name,
    last_segment,
    segment_name,
    segment_packet,
    split_segment,
)

SIZES = st.sampled_from([1, 5, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 40 * SEGMENT_BYTES + 7])


class Path:
    """Interests to a store of blobs and answers from it, each lost with a probability, 10 ms apart."""

    def __init__(self, there: MemoryBlobs, fetch: BlobFetch, loss: float, seed: int) -> None:
        self.there = there
        self.fetch = fetch
        self.loss = loss
        self.random = Random(seed)
        self.asked: list[Interest] = []
        self.now = 0

    def answer(self, blob: str, number: int) -> bytes | None:
        return segment_packet(self.there, blob, number)

    def run(self, until: int) -> None:
        """Let time pass until the fetch is over."""
        self.fetch.start(self.now)
        under_way: list[tuple[int, int, bytes]] = []
        while not self.fetch.is_over and self.now < until:
            for packet in self.fetch.take_outputs():
                interest = parse_interest(packet)
                self.asked.append(interest)
                segment = split_segment(interest.name)
                assert segment is not None
                answer = self.answer(*segment)
                if answer is not None and self.random.random() >= self.loss:
                    under_way.append((self.now + 10 * MS, segment[1], answer))
            due = self.fetch.next_deadline()
            assert due is not None
            arrival = min(under_way, default=None)
            if arrival is not None and arrival[0] <= due:
                under_way.remove(arrival)
                self.now = max(self.now, arrival[0])
                self.fetch.receive(arrival[1], parse_lp(arrival[2]), self.now)
            else:
                self.now = max(self.now, due)
                self.fetch.wake(self.now)


def fetching(content: bytes, loss: float = 0.0, seed: int = 1) -> tuple[Path, str, MemoryBlobs]:
    there, here = MemoryBlobs(), MemoryBlobs()
    blob = there.add(content)
    fetch = BlobFetch(blob, here, rng=Random(seed), hint=(from_uri("/x"),), give_up=30 * SECOND)
    return Path(there, fetch, loss, seed), blob, here


@given(SIZES, st.sampled_from([0.0, 0.1, 0.3]), st.integers(0, 99))
def test_it_arrives_whole(size: int, loss: float, seed: int) -> None:
    content = Random(seed).randbytes(size)
    path, blob, here = fetching(content, loss, seed)
    path.run(600 * SECOND)
    assert path.fetch.is_complete
    assert here.read(blob) == content
    assert {interest.forwarding_hint for interest in path.asked} == {(from_uri("/x"),)}
    if not loss:
        assert len(path.asked) == last_segment(size) + 1, "each segment is asked for once"


def test_without_an_answer_it_is_given_up() -> None:
    path, blob, here = fetching(b"x")
    path.there.remove(blob)
    path.run(100 * SECOND)
    assert path.fetch.error == "nobody answers"
    assert path.now == 30 * SECOND
    assert here.size(blob) is None
    assert here.used == 0


def test_something_else_is_refused_and_asked_for_anew() -> None:
    path, blob, here = fetching(bytes(3 * SEGMENT_BYTES))
    other = MemoryBlobs()
    forged = other.add(bytes([1]) * 3 * SEGMENT_BYTES)

    def answer(blob: str, number: int) -> bytes | None:
        packet = segment_packet(other, forged, number)
        assert packet is not None
        return packet.replace(blob_name(forged), blob_name(blob))

    path.answer = answer  # type: ignore[method-assign]
    path.run(100 * SECOND)
    assert path.fetch.error.startswith("blob is ")
    assert path.fetch.rejected.total() == 3
    assert here.size(blob) is None
    assert here.used == 0
    assert not path.asked[0].must_be_fresh
    assert path.asked[-1].must_be_fresh


@pytest.mark.parametrize("final", [None, from_uri("/seg=0"), from_uri("/seg=1"), from_uri("/x"), b"\x32\x01"])
def test_a_last_segment_that_cannot_be_is_ignored(final: bytes | None) -> None:
    path, blob, here = fetching(bytes(3 * SEGMENT_BYTES))
    path.fetch.start(0)
    path.fetch.take_outputs()
    good = segment_packet(path.there, blob, 0)
    assert good is not None
    path.fetch.receive(0, parse_lp(good), MS)
    bad = make_data(segment_name(blob, 1), bytes(SEGMENT_BYTES), final_block=final)
    path.fetch.receive(1, parse_lp(bad), MS)
    assert not path.fetch.is_over
    path.run(100 * SECOND)
    assert here.read(blob) == bytes(3 * SEGMENT_BYTES)


def test_a_refused_interest_is_asked_again() -> None:
    path, blob, _ = fetching(b"abc")
    path.fetch.start(0)
    (interest,) = path.fetch.take_outputs()
    path.fetch.receive(0, parse_lp(make_lp(interest, nack_reason=150)), MS)
    assert not path.fetch.is_over
    while not (again := path.fetch.take_outputs()):
        due = path.fetch.next_deadline()
        assert due is not None
        path.fetch.wake(due)
    assert parse_interest(again[0]).name == segment_name(blob, 0)


@given(st.binary(max_size=60))
def test_names_of_segments_are_read_back(junk: bytes) -> None:
    blob = blob_ref(bytes(32))
    assert split_segment(segment_name(blob, 7)) == (blob, 7)
    assert split_segment(blob_name(blob) + junk) is None or split_segment(blob_name(blob) + junk)[0] == blob  # type: ignore[index]
    assert split_segment(junk) is None
