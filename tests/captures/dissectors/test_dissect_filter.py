"""Filters on the fields of a packet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.dissectors.filter import InvalidFilter, compile_filter

LLI = [
    ("frame.number", 3),
    ("ip.addr", "10.0.0.1"),
    ("ip.addr", "10.0.0.2"),
    ("ndn.type", "LLI"),
    ("ndn.name", "/a/b=c/seq=5"),
    ("ndn.nonce", 0xFF),
    ("ndn.must_be_fresh", True),
    ("ndn.parameters", b"\x01\xab"),
    ("ndn.feed.ssb", b'{"type": "post"}'),
]


@pytest.mark.parametrize(
    "text",
    [
        "ndn.type == LLI",
        'ndn.type == "LLI"',
        "ndn.type eq LLI and frame.number == 3",
        "ndn.type==LLI&&frame.number==3",
        "ndn.name contains seq=5",
        'ndn.name matches "SEQ=[0-9]$"',
        "ndn.nonce == 0xff",
        "ndn.nonce > 254 and ndn.nonce >= 255 and ndn.nonce < 256 and ndn.nonce <= 255",
        "ndn.must_be_fresh",
        "ndn.must_be_fresh == 1",
        "ndn.must_be_fresh == True",
        "ndn.parameters == 01:AB",
        "ndn.parameters == 01ab",
        "ndn.parameters contains ab",
        'ndn.feed.ssb contains "\\"post\\""',
        "ip.addr == 10.0.0.2",
        "ip.addr == 10.0.0.1",
        "ip.addr != 10.0.0.3",
        "not ndn.can_be_prefix",
        "!ndn.can_be_prefix && !(ndn.type == Data)",
        "ndn.type == Data or ndn.type == LLI",
        "ndn.type == LLI or ndn.type == LLI and ndn.type == Data",
        "not not ndn.type",
    ],
)
def test_holds(text: str) -> None:
    assert compile_filter(text)(LLI)
    assert not compile_filter(f"not ({text})")(LLI)


@pytest.mark.parametrize(
    "text",
    [
        "ndn.type == Data",
        "ndn.type == LLI and ndn.type == Data",
        "(ndn.type == LLI or ndn.type == LLI) and ndn.type == Data",
        "ndn.lp.ack",
        "ndn.lp.ack != 5",
        "ip.addr != 10.0.0.1",
        "ndn.nonce == ff",
    ],
)
def test_does_not_hold(text: str) -> None:
    assert not compile_filter(text)(LLI)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "name is missing"),
        ("ndn.nam == x", "did you mean ndn.name?"),
        ("tcp.port", "no field"),
        ("ndn.type ==", "value is missing"),
        ("ndn.type == LLI ndn.name", "'ndn.name' is not expected"),
        ("(ndn.type", "parenthesis is missing"),
        ("ndn.type)", "not expected"),
        ("ndn.type and", "name is missing"),
        ('"ndn.type"', "name is missing"),
        ('ndn.type == "LLI', "cannot read"),
        ("ndn.name matches (", "value"),
        ('ndn.name matches "("', "no regular expression"),
        ("(" * 100 + "ndn.type" + ")" * 100, "nested"),
        ("ndn.type = LLI", "cannot read"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidFilter, match=reason.replace("?", r"\?").replace("(", r"\(")):
        compile_filter(text)


@given(
    st.lists(
        st.sampled_from(
            ["ndn.type", "==", "LLI", "(", ")", "not", "and", "or", "!=", '"', "contains", "~", "5"]
        )
    )
)
def test_any_text_is_a_filter_or_refused(words: list[str]) -> None:
    try:
        test = compile_filter(" ".join(words))
    except InvalidFilter:
        return
    assert test(LLI) in (True, False)
