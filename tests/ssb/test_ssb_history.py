"""Feeds that are asked for by `createHistoryStream`: messages come in any order, as stock peers mix them."""

import json
from itertools import permutations
from random import Random

import pytest

from ssb.generate import generate_feed
from ssb.replication.history import HistoryFetch, InvalidAnswer

FEED = generate_feed(Random(1), 5)


def body(number: int, **changed: object) -> bytes:
    return json.dumps(json.loads(FEED[number - 1].text) | changed).encode()


@pytest.mark.parametrize(
    "changed", [{}, {"content": "AAAAB.box2"}, {"content": {"type": "post", "text": "x" * 9_000}}]
)
def test_what_comes_before_a_message_that_breaks_a_rule_is_kept(changed: dict[str, object]) -> None:
    bodies = [body(1), body(2), body(3), body(4, **changed), body(5)]
    for order in permutations(bodies):
        fetch = HistoryFetch(FEED[0].author)
        taken = []
        for each in order:
            if fetch.refusal is None:
                taken += fetch.receive(each, len(taken))
        assert taken == FEED[: 3 if changed else 5]
        assert (fetch.refusal is not None) == bool(changed)


@pytest.mark.parametrize("sequence", ["4", 4.5, None, True, -1, 0])
def test_a_message_without_a_place_is_refused_at_once(sequence: object) -> None:
    fetch = HistoryFetch(FEED[0].author)
    assert fetch.receive(body(1, sequence=sequence), 0) == []
    assert fetch.refusal is not None


@pytest.mark.parametrize("answer", [b"\xff", b"[]", b"{}", b'{"author": 1}'])
def test_what_was_not_asked_for_is_the_remotes_fault(answer: bytes) -> None:
    with pytest.raises(InvalidAnswer):
        HistoryFetch(FEED[0].author).receive(answer, 0)
