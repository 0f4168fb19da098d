"""Blobs between peers: wants go as far as with stock peers, and end with those who have them."""

import json
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from fresh_seeds import first_fresh_seed

from ssb.keys import blob_ref
from ssb.replication.blobs import BlobLimits, Blobs, BlobSource
from ssb.store.blobs import MemoryBlobs, RefusedBlob

DATA = b"blob" * 1_000


class Peers:
    """Peers by number, connected in pairs; what they tell arrives at once."""

    def __init__(self, count: int) -> None:
        self.blobs = [Blobs(MemoryBlobs()) for _ in range(count)]
        self.pairs: set[tuple[int, int]] = set()

    def connect(self, one: int, other: int) -> None:
        self.pairs |= {(one, other), (other, one)}
        self.blobs[one].open(other)
        self.blobs[other].open(one)

    def cut(self, one: int, other: int) -> None:
        self.pairs -= {(one, other), (other, one)}
        self.blobs[one].close(other)
        self.blobs[other].close(one)

    def settle(self) -> None:
        is_busy = True
        while is_busy:
            is_busy = False
            for one, other in sorted(self.pairs):
                for body in self.blobs[one].take_output(other):
                    is_busy = True
                    self.blobs[other].receive(one, body)
                for blob in self.blobs[one].take_fetches(other):
                    is_busy = True
                    for part in BlobSource(self.blobs[other].store, [blob]).take_output(1 << 20):
                        self.blobs[one].on_data(other, blob, part)
                    self.blobs[one].on_finished(other, blob, "")

    def wanted(self, blob: str) -> list[int]:
        return [each.wanted.get(blob, 0) for each in self.blobs]


@pytest.mark.parametrize("hops", range(1, 6))
def test_a_blob_crosses_two_peers_that_have_not_asked_and_no_third(hops: int) -> None:
    peers = Peers(hops + 1)
    for one, other in pairwise(range(hops + 1)):
        peers.connect(one, other)
    blob = peers.blobs[hops].store.add(DATA)
    peers.blobs[0].want(blob)
    peers.settle()
    assert (peers.blobs[0].store.size(blob) is not None) == (hops <= 3)
    if hops > 3:
        assert peers.wanted(blob)[:4] == [-1, -2, -3, 0]


def nearest(peers: Peers, wanting: set[int]) -> list[int]:
    """Return how far each peer is from those that want a blob for themselves."""
    distance = dict.fromkeys(wanting, 0)
    ahead = list(wanting)
    while ahead:
        here = ahead.pop(0)
        for one, other in sorted(peers.pairs):
            if one == here and other not in distance:
                distance[other] = distance[here] + 1
                ahead.append(other)
    return [distance.get(each, 9) for each in range(len(peers.blobs))]


@pytest.mark.parametrize("seed", [*range(20), *range(first_fresh_seed(), first_fresh_seed() + 20)])
def test_wants_for_others_end_when_nobody_near_has_them(seed: int) -> None:
    """Whatever is connected and cut. Two peers cannot keep a want alive for each other; nor is one lost."""
    random = Random(seed)
    peers = Peers(random.randint(2, 6))
    blob = blob_ref(bytes(32))
    wanting: set[int] = set()
    for _ in range(40):
        one, other = random.sample(range(len(peers.blobs)), 2)
        if (one, other) in peers.pairs:
            peers.cut(one, other)
        elif random.random() < 0.3:
            wanting.add(one)
            peers.blobs[one].want(blob)
        else:
            peers.connect(one, other)
        peers.settle()
        for want, distance in zip(peers.wanted(blob), nearest(peers, wanting), strict=True):
            assert (want == -1) == (distance == 0)
            assert want < 0 or distance > 2
    for one, other in sorted(peers.pairs):
        if one < other:
            peers.cut(one, other)
            peers.settle()
    assert peers.wanted(blob) == [-1 if each in wanting else 0 for each in range(len(peers.blobs))]


def test_wants_beyond_the_limit_and_strange_references_are_no_fault() -> None:
    blobs = Blobs(MemoryBlobs(), BlobLimits(wants=10))
    blobs.open(1)
    wants: dict[str, Any] = {blob_ref(bytes([number]) * 32): -1 for number in range(30)}
    blobs.receive(1, json.dumps(wants | {"&strange.sha256": -1}).encode())
    assert len(blobs.wanted) == 10
    added = blobs.store.add(DATA)
    blobs.announce(added)


def test_a_blob_that_is_none_is_fetched_from_another() -> None:
    peers = Peers(3)
    peers.connect(0, 1)
    peers.connect(0, 2)
    blob = peers.blobs[2].store.add(DATA)
    peers.blobs[0].want(blob)
    peers.blobs[0].take_output(1)
    peers.blobs[0].receive(1, json.dumps({blob: len(DATA)}).encode())
    assert peers.blobs[0].take_fetches(1) == [blob]
    peers.blobs[0].on_data(1, blob, b"something else")
    with pytest.raises(RefusedBlob):
        peers.blobs[0].on_finished(1, blob, "")
    peers.settle()
    assert peers.blobs[0].store.read(blob) == DATA
