"""Bounds of classic forwarding and of links are tested: without each, the closest test fails."""

from functools import partial

import pytest
import test_forwarder
import test_pacing
import test_wire_evidence
from mutants.bounds import Bound, check, line, value

from forwarder.pipelines import interests
from forwarder.pipelines.nacks import NackPipeline
from forwarder.tables import pacing
from forwarder.wire import evidence

BOUNDS = [
    Bound(
        "lifetime of an Interest",
        value(interests, "MOST_LIFETIME_MS"),
        test_forwarder.test_a_lifetime_is_an_hour_at_most_after_a_refusal_too,
    ),
    Bound(
        "lifetime after a Nack",
        line(NackPipeline, "receive", "min(asking.lifetime_ms, MOST_LIFETIME_MS)", "asking.lifetime_ms"),
        test_forwarder.test_a_lifetime_is_an_hour_at_most_after_a_refusal_too,
    ),
    Bound(
        "streams that share a link",
        value(pacing, "_MOST_STREAMS"),
        test_pacing.test_streams_are_counted_up_to_a_bound_and_those_that_have_ended_make_room,
    ),
    Bound(
        "backlog of a link",
        value(pacing, "_MOST_BACKLOG"),
        test_pacing.test_a_stream_waits_beyond_its_turn_while_the_backlog_is_too_long,
    ),
    Bound(
        "numbers of evidence",
        value(evidence, "LAST_NUMBER", 1 << 64),
        partial(test_wire_evidence.test_what_is_malformed, b"\0" + b"\xff" * 8),
    ),
]


@pytest.mark.patches
@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.name)
def test_without_its_bound_a_test_fails(bound: Bound) -> None:
    check(bound)
