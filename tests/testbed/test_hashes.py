"""Messages under their numbers and under their hashes: what it costs is what the packets add up to."""

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from forwarder.wire.feed import item_name
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest
from ssb_over_ndn.naming import hash_name, hash_packet, log_name, message_packet
from testbed.cli.main import feednet
from testbed.ladder.hashes import Way, generated, measure

HEADERS = 28


def interest_of(name: bytes, hint: tuple[bytes, ...] = ()) -> bytes:
    return make_interest(name, nonce=0, lifetime_ms=4000, hop_limit=SENT_HOP_LIMIT, forwarding_hint=hint)


@pytest.mark.parametrize("way", Way)
@settings(max_examples=15)
@given(messages=st.integers(1, 30), seed=st.integers(0, 99))
def test_the_cost_is_that_of_the_packets(way: Way, messages: int, seed: int) -> None:
    feed = generated(messages, seed)
    log = log_name(feed[0].author)
    hint = (log,) if way is Way.HINT else ()
    numbered = [(interest_of(item_name(log, each.sequence)), message_packet(each)) for each in feed]
    hashed = [(interest_of(hash_name(each.id), hint), hash_packet(each)) for each in feed]
    crossing = numbered if way is Way.NUMBER else numbered + hashed
    cost = measure(feed, way)
    assert cost.stored == len(crossing), "each name crosses the link once, and is stored"
    assert cost.kept == cost.stored_bytes == sum(len(data) for _, data in crossing)
    assert cost.upstream == sum(len(asked) + len(data) + 2 * HEADERS for asked, data in crossing)
    second = numbered if way is Way.NUMBER else hashed
    assert cost.interest == sum(len(asked) for asked, _ in second) / messages
    assert cost.routes == (1 + messages if way is Way.ROUTES else 1)


def test_the_command() -> None:
    done = CliRunner().invoke(feednet, ["model", "hashes", "--messages", "3"])
    assert done.exit_code == 0
    lines = done.output.splitlines()[2:]
    for line, way in zip(lines, Way, strict=True):
        cost = measure(generated(3), way)
        assert line.strip().startswith(way.value)
        assert line.split()[-3:] == [f"{cost.stored:,}", f"{cost.routes:,}", f"{cost.route_bytes:,}"]


def test_a_feed_without_messages_is_refused() -> None:
    done = CliRunner().invoke(feednet, ["model", "hashes", "--messages", "0"])
    assert done.exit_code == 2
    assert "0 is not in the range" in done.output
