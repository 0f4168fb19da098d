"""Announcements of Scuttlebutt peers in captures."""

from crafted import Frame
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from test_batch import at_once, one_by_one

from ssb.keys import Identity
from ssb.transport.address import PeerAddress

ADDRESS = str(PeerAddress("10.0.0.1", 8008, Identity.from_seed(bytes(32)).ref)).encode()


def framed(payload: bytes) -> Frame:
    datagram = IP(src="10.0.0.1", dst="255.255.255.255") / UDP(sport=8008, dport=8008) / Raw(payload)
    wire = bytes(Ether(dst="ff:ff:ff:ff:ff:ff") / datagram)
    return Frame(wire, len(wire), 1)


def test_both_decoders_know_announcements_and_what_is_none() -> None:
    # Stock peers announce several addresses, with `;` between.
    announced = [ADDRESS, b"ws://10.0.0.1:8989~shs:AA;" + ADDRESS]
    others = [b"", b"hello", b"\xff" * 80, ADDRESS[:-4]]
    some = [framed(payload) for payload in (*announced, *others)]
    cut = framed(ADDRESS)
    some.append(Frame(cut.octets[:60], len(cut.octets), 1))
    rows = at_once(some)
    assert rows == one_by_one(some)
    assert [row["kind"] for row in rows] == 2 * ["announcement"] + 4 * ["malformed"] + ["other"]
    assert {row["protocol"] for row in rows} == {"lan"}
    assert [row["carried_bytes"] for row in rows[:2]] == [len(payload) for payload in announced]
    assert rows[3]["problem"] == "no address of a Scuttlebutt peer"
