"""Formats of messages, compared: what they measure is what a receiver of each has to do."""

import cbor2
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from ssb.keys import Identity
from ssb.tiny.entry import packets_of
from testbed.cli.main import feednet
from testbed.ladder.formats import FORMATS, measure

AUTHOR = Identity.from_seed(bytes(32))
LOGS = {name: list(write(AUTHOR, "late posts arrive " * 12, 3)) for name, write in FORMATS.items()}


@pytest.mark.parametrize("name", FORMATS)
def test_a_whole_log_passes(name: str) -> None:
    for post in LOGS[name]:
        post.check(post.packets)
        assert (post.open is None) == (post.content == b"")
        if post.open is not None:
            post.open(post.content)


@pytest.mark.parametrize("name", ["detached JSON", "Gabby Grove"])
@given(st.data())
def test_a_content_with_a_flipped_bit_does_not(name: str, data: st.DataObject) -> None:
    post = data.draw(st.sampled_from(LOGS[name]))
    content = bytearray(post.content)
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert post.open is not None
    with pytest.raises(ValueError, match=r"content|blob is not"):
        post.open(bytes(content))


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=60)
@given(st.data())
def test_a_flipped_bit_does_not(name: str, data: st.DataObject) -> None:
    post = data.draw(st.sampled_from(LOGS[name]))
    packets = [bytearray(each) for each in post.packets]
    packet = data.draw(st.sampled_from(packets))
    packet[data.draw(st.integers(0, len(packet) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((ValueError, TypeError, LookupError, cbor2.CBORDecodeError)):
        post.check([bytes(each) for each in packets])


@pytest.mark.parametrize("name", FORMATS)
def test_neither_does_a_post_in_the_place_of_another(name: str) -> None:
    first, second, _ = LOGS[name]
    with pytest.raises(ValueError, match=r"place|sequence|missing|backlink|number|follow"):
        second.check(first.packets)


def test_sizes() -> None:
    costs = {cost.name: cost for cost in measure(200, posts=2)}
    assert costs["tinySSB"].size == 120 * packets_of(200)
    assert costs["cbor"].size < costs["classic JSON"].size
    assert all(cost.overhead == cost.size + cost.beside - 200 for cost in costs.values())
    assert all(cost.check_us >= (cost.hole_us or 0) > 0 for cost in costs.values() if cost.beside)


def test_without_contents_a_log_is_as_long_whatever_they_are() -> None:
    long, short = ({cost.name: cost for cost in measure(size, posts=2)} for size in (2_000, 20))
    for name in ("detached JSON", "Gabby Grove"):
        assert long[name].size - short[name].size <= 2  # digits of the size
        assert long[name].beside - short[name].beside >= 1_980


def test_the_command() -> None:
    done = CliRunner().invoke(feednet, ["model", "formats", "--bytes", "10"])
    assert done.exit_code == 0
    assert [line.split()[-6] for line in done.output.splitlines()[2:]] == ["10"] * len(FORMATS)
