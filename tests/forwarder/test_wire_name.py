"""Names: components, prefixes, canonical order, and the URI form."""

from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ndn.encoding import Component, Name
from packet_makers import COMPONENTS, GENERIC_COMPONENTS, NAMES, NUMBER_COMPONENTS, mutations

from forwarder.wire.name import (
    component,
    components,
    ends_with_digest,
    from_uri,
    prefix_ends,
    to_uri,
)
from forwarder.wire.tlv import MalformedPacket, element

DIGEST = "893259d98aca58c451453f29ec7dc38688e690dd0b59ef4f3b9d33738bff0b8d"

# NDN packet format 0.3, "NDN URI Scheme", and the naming conventions (revision 3)
URIS = [
    ("/", ""),
    ("/A", "080141"),
    ("/A/B", "080141080142"),
    ("/Hello%20world", "080b48656c6c6f20776f726c64"),
    ("/42=Hello%20world", "2a0b48656c6c6f20776f726c64"),
    ("/a-Z_0.9~", "0808612d5a5f302e397e"),
    ("/%00%FF%2F%3D%25", "080500ff2f3d25"),
    ("/...", "0800"),
    ("/....", "08012e"),
    ("/.....", "08022e2e"),
    ("/......", "08032e2e2e"),
    ("/.a", "08022e61"),
    ("/32=...", "2000"),
    ("/32=KEY", "20034b4559"),
    ("/65535=x", "fdffff0178"),
    ("/253=x", "fd00fd0178"),
    (f"/sha256digest={DIGEST}", "0120" + DIGEST),
    (f"/params-sha256={DIGEST}", "0220" + DIGEST),
    ("/seg=0", "320100"),
    ("/off=255", "3401ff"),
    ("/v=256", "36020100"),
    ("/t=4294967296", "38080000000100000000"),
    ("/seq=18446744073709551615", "3a08ffffffffffffffff"),
    # A number in more bytes than it needs, or in a wrong number of bytes, is not that convention's.
    ("/58=%00%01", "3a020001"),
    ("/58=abc", "3a03616263"),
    ("/58=...", "3a00"),
]

# Other spellings of the same names
SPELLINGS = [
    ("", "/"),
    ("ndn:/", "/"),
    ("ndn:", "/"),
    ("//", "/"),
    ("ndn://authority", "/"),
    ("ndn://authority/A", "/A"),
    ("ndn:/A/B", "/A/B"),
    ("A/B/", "/A/B"),
    ("/8=A", "/A"),
    ("/%41", "/A"),
    ("/%2e%2E%2e", "/..."),
    ("/%2E...", "/...."),
    ("/caf\u00e9", "/caf%C3%A9"),
    (f"/sha256digest={DIGEST.upper()}", f"/sha256digest={DIGEST}"),
    ("/58=%01", "/seq=1"),
    (f"/1={'%AB' * 32}", f"/sha256digest={'ab' * 32}"),
]

NOT_URIS = [
    "/.",
    "/..",
    "/%2E",
    "/32=..",
    "/a//b",
    "/8=",
    "/0=a",
    "/65536=a",
    "/08=a",
    "/+8=a",
    "/-1=a",
    "/x=1",
    "/a.b=c",
    "/=a",
    "/SEQ=1",
    "/seq=",
    "/seq=-1",
    "/seq=+1",
    "/seq=01",
    "/seq=1_0",
    "/seq= 1",
    "/seq=\u0663",
    "/seq=18446744073709551616",
    "/seq=" + "9" * 5000,
    "/%",
    "/%4",
    "/%4g",
    "/1=abc",
    f"/sha256digest={DIGEST[:-2]}",
    f"/sha256digest={DIGEST}00",
    f"/sha256digest={DIGEST[:-2]} 8",
    "/sha256digest=",
]


@pytest.mark.parametrize(("uri", "name"), URIS)
def test_uri(uri: str, name: str) -> None:
    assert from_uri(uri) == bytes.fromhex(name)
    assert to_uri(bytes.fromhex(name)) == uri


@pytest.mark.parametrize(("uri", "plain"), SPELLINGS)
def test_other_spellings(uri: str, plain: str) -> None:
    assert to_uri(from_uri(uri)) == plain


@pytest.mark.parametrize("uri", NOT_URIS, ids=lambda uri: uri[:20])
def test_not_a_uri(uri: str) -> None:
    with pytest.raises(ValueError, match=r"digest|component|number|percent"):
        from_uri(uri)


@given(
    st.text()
    | st.text(alphabet="/=.%0123456789abcdefsqv")
    | st.from_regex(r"/(seq|v|sha256digest|8|32|\d{1,6})=.{0,8}")
)
def test_a_text_is_a_uri_or_a_value_error(text: str) -> None:
    try:
        name = from_uri(text)
    except ValueError:
        return
    assert from_uri(to_uri(name)) == name


@given(NAMES)
def test_uri_is_reversible(name: bytes) -> None:
    assert from_uri(to_uri(name)) == name
    assert from_uri("ndn:" + to_uri(name)) == name


# python-ndn adds no periods, and writes every number of the conventions' types as a marker.
PLAIN_NAMES = st.lists(
    (GENERIC_COMPONENTS | NUMBER_COMPONENTS | COMPONENTS).filter(
        lambda part: (
            Component.get_value(part).tobytes().strip(b".") != b""
            and (
                Component.get_type(part) not in (50, 52, 54, 56, 58)
                or Component.from_number(Component.to_number(part), Component.get_type(part)) == part
            )
        )
    ),
    max_size=6,
).map(b"".join)


@given(PLAIN_NAMES)
def test_uris_are_those_of_python_ndn(name: bytes) -> None:
    formal = Name.from_bytes(element(7, name))
    uri = Name.to_str(formal)
    assert to_uri(name) == uri
    assert from_uri(uri) == name
    assert element(7, from_uri(uri)) == bytes(Name.to_bytes(Name.from_str(uri)))
    assert from_uri(Name.to_canonical_uri(formal)) == name


@given(st.lists(COMPONENTS, max_size=6))
def test_components_and_prefixes(parts: list[bytes]) -> None:
    name = b"".join(parts)
    assert b"".join(component(kind, value) for kind, value in components(name)) == name
    assert len(components(name)) == len(parts)
    assert prefix_ends(name) == list(accumulate(len(part) for part in parts))


BROKEN_NAMES = st.binary(max_size=60) | mutations(NAMES)


@given(BROKEN_NAMES)
@example(b"\x08\x02a")
@example(b"\x08")
@example(b"\x08\x01a\x08\x05b")
@example(b"\x00\x01a")
@example(b"\x01\x1f" + bytes(31))
@example(b"\x02\x21" + bytes(33))
@example(element(65536, b"a"))
@example(element(65535, b"a"))
@example(b"\x08\xfd\x01\x00" + bytes(256))
@example(b"\x08\xfd\x00\x01a")
def test_components_and_prefixes_agree_on_what_is_a_name(name: bytes) -> None:
    try:
        parts = components(name)
    except MalformedPacket:
        with pytest.raises(MalformedPacket):
            prefix_ends(name)
    else:
        ends = prefix_ends(name)
        assert [component(kind, value) for kind, value in parts] == [
            name[start:end] for start, end in zip([0, *ends], ends, strict=False)
        ]


@pytest.mark.parametrize(
    "name",
    [b"\x00\x00", b"\x01\x1f" + bytes(31), b"\x02\x00", element(65536), b"\x08\x02a", b"\x08\xfd\x00\x01a"],
    ids=["type 0", "short digest", "empty digest", "type 65536", "cut", "long form"],
)
def test_not_a_name(name: bytes) -> None:
    with pytest.raises(MalformedPacket):
        components(name)
    with pytest.raises(MalformedPacket):
        prefix_ends(name)


@given(st.lists(st.lists(COMPONENTS, max_size=3).map(b"".join), max_size=8))
def test_byte_order_is_canonical_order(names: list[bytes]) -> None:
    """NDN packet format 0.3, "Canonical Order": by type, then length, then value; a prefix comes first."""
    assert sorted(names) == sorted(
        names, key=lambda name: [(kind, len(value), value) for kind, value in components(name)]
    )


@given(NAMES)
def test_ends_with_digest(name: bytes) -> None:
    parts = components(name)
    if parts and parts[-1][0] == 1:
        assert ends_with_digest(name)
    elif not parts or len(parts[-1][1]) < 34:
        assert not ends_with_digest(name)
