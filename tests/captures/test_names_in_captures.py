"""Names in captures: one of any length becomes a directory, a link type that is not read is named."""

import struct
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from test_pcapng import block, option, packet, section

from analysis.decode.reading import directory_name
from analysis.spark.parquet import BY, partition
from captures.layers.frames import udp_frame
from captures.layers.link_types import not_read, remedy
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest
from testbed.cli.main import feednet

FRAME = udp_frame(
    bytes(6), bytes(6), "10.0.0.1", "10.0.0.2", 6363, 6363, make_interest(from_uri("/a"), nonce=1), 1
)


@given(st.text(max_size=300) | st.text("a%/-é", min_size=100, max_size=300))
def test_a_name_fits_into_a_directorys(name: str) -> None:
    fitted = directory_name(name)
    for column in BY:
        assert len(partition(column, f"{fitted}%4294967295").encode(errors="surrogateescape")) <= 255
    assert directory_name(fitted) == fitted
    if len(name) <= 60:
        assert fitted == name


def test_long_names_stay_different() -> None:
    assert directory_name("a" * 300) != directory_name("a" * 301)
    assert directory_name("a" * 300).startswith("a" * 150)


def capture(*interfaces: tuple[str, int]) -> bytes:
    described = [
        block("<", 1, struct.pack("<HHI", link_type, 0, 0) + option("<", 2, name.encode()) + bytes(4))
        for name, link_type in interfaces
    ]
    return (
        section("<")
        + b"".join(described)
        + b"".join(packet("<", number, number, FRAME) for number in range(len(interfaces)))
    )


def analysed(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    given = [str(path), "--packets-only", "--out", str(path.parent / "out")]
    done = CliRunner().invoke(feednet, ["analyze", *given], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_an_interface_may_have_a_name_of_300_bytes(tmp_path: Path) -> None:
    said = analysed(tmp_path / "x.pcapng", capture(("e" * 300, 1), ("e" * 299 + "f", 1), ("eth0", 1)))
    assert "3 interest" in said
    assert len(list((tmp_path / "out").rglob("interface=*"))) == 3


def test_a_file_may_have_a_name_that_escaping_makes_long(tmp_path: Path) -> None:
    assert "1 interest" in analysed(tmp_path / f"{'+' * 200}.pcapng", capture(("eth0", 1)))


def test_a_link_type_that_is_not_read_is_named_with_a_remedy(tmp_path: Path) -> None:
    said = analysed(tmp_path / "x.pcapng", capture(("wlan0", 105), ("own", 147), ("eth0", 1), ("odd", 9999)))
    for words in (
        "1 link type 105 (IEEE802_11) is not read",
        "1 link type 147 (USER0) is not read",
        "1 link type 9999 (not registered) is not read",
        "tcpdump -i any",
        "editcap -T ether",
    ):
        assert words in said


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "NULL"),
        (10, "FDDI"),
        (50, "PPP_HDLC"),
        (127, "IEEE802_11_RADIOTAP"),
        (162, "USER15"),
        (163, "IEEE802_11_AVS"),
        (195, "IEEE802_15_4_WITHFCS"),
        (252, "WIRESHARK_UPPER_PDU"),
        (276, "LINUX_SLL2"),
        (304, "DECT_NR_TAP"),
    ],
)
def test_numbers_are_those_of_the_registry(number: int, name: str) -> None:
    assert not_read(number) == f"link type {number} ({name}) is not read"


def test_no_remedy_for_what_is_no_link_type() -> None:
    assert remedy(["IP fragment", "cut by the capture"]) is None
    assert "editcap" not in (remedy([not_read(105)]) or "")
