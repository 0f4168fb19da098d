"""Packets byte by byte, built and read."""

import hashlib

from forwarder.links.link import LinkService
from forwarder.wire.feed import feed_name, item_name, native_content, split_item
from forwarder.wire.lp import NO_ROUTE, make_lp, parse_lp
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import DIGEST_SHA256, ED25519, make_data, make_interest, parse_data, parse_interest


def packet(annotated: str) -> bytes:
    """The bytes of a vector: hexadecimal up to the # on each line."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in annotated.splitlines()))


KEY = bytes(range(0x20, 0x40))
FEED = feed_name(from_uri("/logs"), KEY)

INTEREST = """
05 0b           # Interest, 11 bytes
   07 03        #   Name, 3 bytes
      08 01 41  #     GenericNameComponent "A"
   0a 04        #   Nonce, 4 bytes
      01 02 03 04
"""


def test_minimal_interest() -> None:
    wire = packet(INTEREST)
    assert make_interest(from_uri("/A"), nonce=0x01020304) == wire
    interest = parse_interest(wire)
    assert interest.wire == wire
    assert to_uri(interest.name) == "/A"
    assert interest.nonce == 0x01020304
    assert not interest.can_be_prefix
    assert not interest.must_be_fresh
    assert interest.lifetime_ms == 4000
    assert interest.hop_limit is None
    assert interest.send_credit is None
    assert interest.next_hop_wire() == wire


FULL_INTEREST = """
05 19              # Interest, 25 bytes
   07 06           #   Name, 6 bytes
      08 01 41     #     GenericNameComponent "A"
      36 01 05     #     VersionNameComponent 5
   21 00           #   CanBePrefix
   12 00           #   MustBeFresh
   0a 04           #   Nonce
      ff ff ff ff
   0c 02           #   InterestLifetime
      03 e8        #     1000 ms
   22 01           #   HopLimit
      20           #     32
"""


def test_interest_with_everything() -> None:
    wire = packet(FULL_INTEREST)
    made = make_interest(
        from_uri("/A/v=5"),
        nonce=0xFFFF_FFFF,
        can_be_prefix=True,
        must_be_fresh=True,
        lifetime_ms=1000,
        hop_limit=32,
    )
    assert made == wire
    interest = parse_interest(wire)
    assert (interest.can_be_prefix, interest.must_be_fresh) == (True, True)
    assert (interest.nonce, interest.lifetime_ms, interest.hop_limit) == (0xFFFF_FFFF, 1000, 32)
    assert interest.next_hop_wire() == wire[:-1] + b"\x1f"


LLI = """
05 40                     # Interest, 64 bytes
   07 2b                  #   Name, 43 bytes
      08 04 6c 6f 67 73   #     GenericNameComponent "logs"
      08 20               #     GenericNameComponent: the writer's Ed25519 public key
         20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f
         30 31 32 33 34 35 36 37 38 39 3a 3b 3c 3d 3e 3f
      3a 01               #     SequenceNumNameComponent
         08               #       item 8
   0a 04                  #   Nonce
      00 00 00 07
   0c 04                  #   InterestLifetime
      00 36 ee 80         #     an hour
   22 01                  #   HopLimit
      0a                  #     10
   f0 02                  #   SendCredit
      01 00               #     256 items: 8 to 263
"""


def test_long_lived_interest() -> None:
    wire = packet(LLI)
    made = make_interest(item_name(FEED, 8), nonce=7, lifetime_ms=3_600_000, hop_limit=10, send_credit=256)
    assert made == wire
    lli = parse_interest(wire)
    assert split_item(lli.name) == (FEED, 8)
    assert (lli.send_credit, lli.lifetime_ms, lli.hop_limit, lli.nonce) == (256, 3_600_000, 10, 7)


DATA = """
06 39              # Data, 57 bytes
   07 03           #   Name
      08 01 41     #     GenericNameComponent "A"
   14 07           #   MetaInfo
      18 01        #     ContentType
         02        #       KEY
      19 02        #     FreshnessPeriod
         03 e8     #       1000 ms
   15 02           #   Content
      68 69        #     "hi"
   16 03           #   SignatureInfo
      1b 01        #     SignatureType
         00        #       DigestSha256
   17 20           #   SignatureValue: SHA-256 of all from Name to SignatureInfo
"""
SIGNED = "0703080141 1407180102190203e8 15026869 16031b0100"


def test_data() -> None:
    signed = bytes.fromhex(SIGNED)
    digest = hashlib.sha256(signed).digest()
    wire = packet(DATA) + digest
    assert make_data(from_uri("/A"), b"hi", freshness_ms=1000, content_type=2) == wire
    data = parse_data(wire)
    assert data.wire == wire
    assert to_uri(data.name) == "/A"
    assert (data.content, data.content_type, data.freshness_ms) == (b"hi", 2, 1000)
    assert (data.signature_type, data.signature, data.signed) == (DIGEST_SHA256, digest, signed)
    assert data.digest() == hashlib.sha256(wire).digest()


MINIMAL_DATA = """
06 09           # Data, 9 bytes
   07 00        #   Name of no components
   16 03        #   SignatureInfo
      1b 01 c8  #     SignatureType 200
   17 00        #   SignatureValue, empty
"""


def test_minimal_data() -> None:
    data = parse_data(packet(MINIMAL_DATA))
    assert (data.name, data.content, data.signature) == (b"", b"", b"")
    assert (data.content_type, data.freshness_ms, data.signature_type) == (0, 0, 200)
    assert data.signed == packet(MINIMAL_DATA)[2:-2]


NACK = """
64 18              # LpPacket, 24 bytes
   fd 03 20 05     #   Nack
      fd 03 21 01  #     NackReason
         96        #       NoRoute
   50 0d           #   Fragment: the Interest
"""


def test_nack() -> None:
    interest = packet(INTEREST)
    wire = packet(NACK) + interest
    assert make_lp(interest, nack_reason=NO_ROUTE) == wire
    lp = parse_lp(wire)
    assert (lp.nack_reason, lp.fragment) == (150, interest)
    assert (lp.sequence, lp.frag_index, lp.frag_count) == (None, 0, 1)
    assert (lp.pit_token, lp.congestion_mark, lp.tip, lp.limit) == (None, 0, None, None)


FRAGMENT = """
64 fd 05 9e                    # LpPacket, 1438 bytes
   51 08                       #   Sequence
      00 00 00 00 00 00 00 01  #     1
   52 01                       #   FragIndex
      01                       #     the second
   53 01                       #   FragCount
      03                       #     of three
   50 fd 05 8a                 #   Fragment, 1418 bytes
"""
LAST_FRAGMENT = """
64 1b                          # LpPacket, 27 bytes
   51 08                       #   Sequence
      00 00 00 00 00 00 00 02  #     2
   52 01                       #   FragIndex
      02                       #     the third
   53 01                       #   FragCount
      03                       #     of three
   50 09                       #   Fragment, 9 bytes
"""


def test_fragments() -> None:
    """A packet of 2845 bytes on a link of 1480: UDP and IPv4 take 28, the fragment's headers 34 at most."""
    data = make_data(from_uri("/A"), bytes(range(256)) * 10 + bytes(233))
    assert len(data) == 1418 * 2 + 9
    sender, receiver = LinkService(1480), LinkService(1480)
    first, second, third = sender.send(data)
    assert second == packet(FRAGMENT) + data[1418:2836]
    assert third == packet(LAST_FRAGMENT) + data[2836:]
    lp = parse_lp(second)
    assert (lp.sequence, lp.frag_index, lp.frag_count) == (1, 1, 3)
    assert receiver.receive(third, 0) is None
    assert receiver.receive(first, 0) is None
    whole = receiver.receive(second, 0)
    assert whole is not None
    assert parse_lp(whole).fragment == data


PUSH = """
64 a7                    # LpPacket, 167 bytes
   62 02                 #   PitToken
      be ef
   fd 03 40 01           #   CongestionMark
      01
   fd 03 70 0b           #   FeedState
      fd 03 71 01        #     Tip
         0c              #       item 12
      fd 03 72 02        #     Limit
         01 07           #       item 263
   50 8d                 #   Fragment, 141 bytes
      06 8b              #     Data, 139 bytes
         07 2b           #       Name
            08 04 6c 6f 67 73
            08 20        #         the writer's key
               20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f
               30 31 32 33 34 35 36 37 38 39 3a 3b 3c 3d 3e 3f
            3a 01 08     #         item 8
         15 27           #       Content of a native item
            f2 20        #         Backlink: digest of item 7's packet
               00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f
               10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f
            f4 03        #         Payload
               70 61 79
         16 03           #       SignatureInfo
            1b 01 05     #         SignatureEd25519
         17 2e           #       SignatureValue
"""


def test_feed_state_push() -> None:
    signature = bytes(46)  # cut down so that the vector's lengths take one byte
    item = make_data(
        item_name(FEED, 8),
        native_content(bytes(range(32)), b"pay"),
        signature_type=ED25519,
        sign=lambda signed: signature,
    )
    wire = packet(PUSH) + signature
    assert make_lp(item, pit_token=b"\xbe\xef", congestion_mark=1, tip=12, limit=263) == wire
    lp = parse_lp(wire)
    assert (lp.tip, lp.limit, lp.pit_token, lp.congestion_mark) == (12, 263, b"\xbe\xef", 1)
    assert lp.fragment == item
    assert parse_data(lp.fragment).signature_type == ED25519
