"""FaceUris: reading, canonical form, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forwarder.faces.uri import FaceUri, canonize, parse

CANONICAL = [
    "udp4://192.0.2.1:6363",
    "udp6://[2001:db8::1]:6363",
    "udp6://[fe80::1%eth0]:6363",
    "tcp4://192.0.2.1:56363",
    "tcp6://[::1]:6363",
    "unix:///run/nfd/nfd.sock",
    "fd://12",
    "ether://[08:00:27:01:01:01]",
    "dev://eth0",
    "internal://",
    "null://",
]


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_ones_are_written_as_they_are_read(text: str) -> None:
    uri = parse(text)
    assert uri.is_canonical
    assert str(uri) == text
    assert canonize(text) == uri


@pytest.mark.parametrize(
    "text",
    [
        "udp://192.0.2.1:6363",
        "udp4://192.0.2.1",
        "udp4://192.0.2.1:6363/path",
        "udp4://192.0.2.01:6363",
        "udp4://example.net:6363",
        "udp4://192.0.2.1:0",
        "udp6://192.0.2.1:6363",
        "udp6://[2001:db8:0::1]:6363",
        "udp6://[2001:DB8::1]:6363",
        "ether://[08:00:27:1:1:1]",
        "ether://[08:00:27:01:01:0A]",
        "dev://",
        "unix://host",
        "fd://x",
        "internal://x",
        "gopher://192.0.2.1:70",
    ],
)
def test_uris_that_are_not_canonical(text: str) -> None:
    assert not parse(text).is_canonical


@pytest.mark.parametrize(
    "text",
    ["", "udp4", "udp4:/192.0.2.1", "udp4://192.0.2.1:65536", "udp4://192.0.2.1:x", "udp6://::1:6363",
     "udp4://[192.0.2.1]:6363", "ether://08:00:27:01:01:01", "UDP4://192.0.2.1:6363"],
)  # fmt: skip
def test_what_is_no_uri(text: str) -> None:
    with pytest.raises(ValueError, match=r"FaceUri|port|brackets"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("udp://127.0.0.1", "udp4://127.0.0.1:6363"),
        ("tcp://127.0.0.1:7000", "tcp4://127.0.0.1:7000"),
        ("udp://[::1]", "udp6://[::1]:6363"),
        ("tcp4://localhost", "tcp4://127.0.0.1:6363"),
        ("ether://[8:0:27:1:1:A]", "ether://[08:00:27:01:01:0a]"),
    ],
)
def test_canonisation(text: str, canonical: str) -> None:
    assert str(canonize(text)) == canonical


@pytest.mark.parametrize("text", ["udp4://[::1]:6363", "udp4://:6363x", "fd://x", "udp://256.256.256.256"])
def test_what_cannot_be_made_canonical(text: str) -> None:
    with pytest.raises(ValueError, match="://"):
        canonize(text)


@given(st.text(max_size=40) | st.sampled_from(CANONICAL).flatmap(
    lambda text: st.integers(0, len(text)).flatmap(
        lambda at: st.characters().map(lambda c: text[:at] + c + text[at:]))))  # fmt: skip
def test_any_text_is_a_uri_or_a_value_error(text: str) -> None:
    try:
        uri = parse(text)
    except ValueError:
        return
    if uri.is_canonical:
        assert parse(str(uri)) == uri
        assert uri.is_multicast in (True, False)


def test_groups_and_loopback() -> None:
    assert parse("udp4://224.0.23.170:56363").is_multicast
    assert parse("udp6://[ff02::1234%eth0]:56363").is_multicast
    assert parse("ether://[01:00:5e:00:17:aa]").is_multicast
    assert not parse("ether://[02:00:5e:00:17:aa]").is_multicast
    assert parse("tcp6://[::1]:1").is_loopback
    assert FaceUri("fd", "3").is_multicast is False
