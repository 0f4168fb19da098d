"""Packet for packet against python-ndn 0.5.2: what one builds the other reads, and the bytes are the same."""

from importlib.metadata import version
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import SigningKey
from ndn import encoding as ndn
from ndn.encoding import ndnlp_v2
from ndn.security import DigestSha256Signer, Ed25519Signer
from packet_makers import ITEMS, LLIS, NAMES, NAMES_OF_INTERESTS, NNI, NONCES, data, interests

from forwarder.wire.feed import split_item
from forwarder.wire.lp import make_lp, parse_lp
from forwarder.wire.name import components
from forwarder.wire.packet import (
    DIGEST_SHA256,
    ED25519,
    Data,
    make_data,
    make_interest,
    parse_data,
    parse_interest,
)
from forwarder.wire.tlv import element

SEED = bytes(range(32))
OUR_KEY = SigningKey(SEED)
# RFC 8410: an Ed25519 private key's PKCS #8 header, which python-ndn wants before the 32 bytes
DER_HEADER = bytes.fromhex("302e020100300506032b657004220420")


def formal(name: bytes) -> list[bytes]:
    """A name as python-ndn's functions take it."""
    return [bytes(part) for part in ndn.Name.from_bytes(element(7, name))]


def joined(name: Any) -> bytes:
    """A name as python-ndn's functions return it, in our form."""
    return b"".join(bytes(part) for part in name)


# python-ndn recomputes or rejects digests of parameters when there are no parameters to digest.
PLAIN_NAMES = NAMES_OF_INTERESTS.filter(lambda name: all(kind != 2 for kind, _ in components(name)))

INTEREST_FIELDS = st.fixed_dictionaries(
    {
        "can_be_prefix": st.booleans(),
        "must_be_fresh": st.booleans(),
        "nonce": NONCES,
        "lifetime_ms": st.none() | NNI,
        "hop_limit": st.none() | st.integers(0, 255),
    }
)


def parameters(fields: dict[str, Any]) -> ndn.InterestParam:
    return ndn.InterestParam(
        can_be_prefix=fields["can_be_prefix"],
        must_be_fresh=fields["must_be_fresh"],
        nonce=fields["nonce"],
        lifetime=fields["lifetime_ms"],
        hop_limit=fields["hop_limit"],
    )


@given(PLAIN_NAMES, INTEREST_FIELDS)
def test_both_build_the_same_interest(name: bytes, fields: dict[str, Any]) -> None:
    assert make_interest(name, **fields) == bytes(ndn.make_interest(formal(name), parameters(fields)))


@given(interests(PLAIN_NAMES))
def test_python_ndn_reads_our_interests(wire: bytes) -> None:
    ours = parse_interest(wire)
    name, theirs, app_param, _ = ndn.parse_interest(wire)
    assert joined(name) == ours.name
    assert app_param is None
    assert theirs.can_be_prefix == ours.can_be_prefix
    assert theirs.must_be_fresh == ours.must_be_fresh
    assert theirs.nonce == ours.nonce
    assert (4000 if theirs.lifetime is None else theirs.lifetime) == ours.lifetime_ms
    assert theirs.hop_limit == ours.hop_limit
    assert ours.send_credit is None


@given(
    PLAIN_NAMES,
    INTEREST_FIELDS,
    st.none() | NONCES,
    st.lists(PLAIN_NAMES, max_size=2),
    st.none() | st.binary(max_size=40),
    st.booleans(),
)
def test_we_read_python_ndns_interests(
    name: bytes,
    fields: dict[str, Any],
    nonce: int | None,
    hints: list[bytes],
    app_param: bytes | None,
    signed: bool,
) -> None:
    """With forwarding hints, parameters and signatures, all of which a forwarder passes on unread."""
    params = parameters(fields | {"nonce": nonce})
    params.forwarding_hint = [formal(hint) for hint in hints]
    signer = DigestSha256Signer(for_interest=True) if signed else None
    wire, final_name = ndn.make_interest(formal(name), params, app_param, signer, need_final_name=True)
    ours = parse_interest(bytes(wire))
    assert ours.wire == bytes(wire)
    assert ours.name == joined(final_name)
    assert ours.can_be_prefix == fields["can_be_prefix"]
    assert ours.must_be_fresh == fields["must_be_fresh"]
    assert ours.nonce == nonce
    assert ours.lifetime_ms == (4000 if fields["lifetime_ms"] is None else fields["lifetime_ms"])
    assert ours.hop_limit == fields["hop_limit"]
    assert ours.send_credit is None


@given(PLAIN_NAMES, INTEREST_FIELDS, NONCES, st.none() | st.binary(max_size=20))
def test_a_nonce_is_added_where_python_ndn_would_have_put_it(
    name: bytes, fields: dict[str, Any], nonce: int, app_param: bytes | None
) -> None:
    def made(nonce: int | None) -> bytes:
        return bytes(ndn.make_interest(formal(name), parameters(fields | {"nonce": nonce}), app_param))

    assert parse_interest(made(None)).with_nonce(nonce) == made(nonce)


@given(interests(PLAIN_NAMES))
def test_the_next_hop_gets_the_same_interest_with_one_hop_less(wire: bytes) -> None:
    before = parse_interest(wire)
    if before.hop_limit == 0:
        return
    name, params, _, _ = ndn.parse_interest(wire)
    if params.hop_limit is not None:
        params.hop_limit -= 1
    assert before.next_hop_wire() == bytes(ndn.make_interest(name, params))


@given(LLIS)
def test_an_lli_is_an_ordinary_interest_for_the_same_name_to_python_ndn(wire: bytes) -> None:
    ours = parse_interest(wire)
    name, theirs, app_param, _ = ndn.parse_interest(wire)
    assert ours.send_credit is not None
    assert joined(name) == ours.name
    assert split_item(ours.name) is not None
    classic = make_interest(
        ours.name, nonce=ours.nonce or 0, lifetime_ms=ours.lifetime_ms, hop_limit=ours.hop_limit
    )
    assert bytes(ndn.make_interest(name, theirs)) == classic
    assert app_param is None


class OurSigner(ndn.Signer):
    """Has python-ndn build a packet with a given SignatureInfo and signature."""

    def __init__(self, signature_type: int, key_name: bytes | None, signature: bytes) -> None:
        self.signature_type = signature_type
        self.key_name = key_name
        self.signature = signature

    def write_signature_info(self, signature_info: Any) -> None:
        signature_info.signature_type = self.signature_type
        if self.key_name is not None:
            signature_info.key_locator = ndn.KeyLocator()
            signature_info.key_locator.name = formal(self.key_name)

    def get_signature_value_size(self) -> int:
        return len(self.signature)

    def write_signature_value(self, wire: Any, contents: list[Any]) -> int:
        wire[:] = self.signature
        return len(self.signature)


@given(NAMES, st.binary(max_size=300), st.none() | NNI, st.none() | NNI)
def test_both_build_the_same_data_with_a_digest(
    name: bytes, content: bytes, content_type: int | None, freshness_ms: int | None
) -> None:
    has_meta = content_type is not None or freshness_ms is not None
    meta = ndn.MetaInfo(content_type, freshness_ms) if has_meta else None
    ours = make_data(name, content, content_type=content_type, freshness_ms=freshness_ms)
    theirs = ndn.make_data(formal(name), meta, content, DigestSha256Signer())
    assert ours == bytes(theirs)


@given(NAMES, st.binary(max_size=300), NAMES)
def test_both_build_the_same_data_with_ed25519(name: bytes, content: bytes, key_name: bytes) -> None:
    """Ed25519 is deterministic, so even the signatures are equal."""
    ours = make_data(
        name,
        content,
        content_type=0,
        signature_type=ED25519,
        key_name=key_name,
        sign=lambda signed: OUR_KEY.sign(signed).signature,
    )
    signer = Ed25519Signer(formal(key_name), DER_HEADER + SEED)
    theirs = bytes(ndn.make_data(formal(name), ndn.MetaInfo(), content, signer))
    assert ours == theirs
    packet = parse_data(theirs)
    OUR_KEY.verify_key.verify(packet.signed, packet.signature)


def assert_same_data(ours: Data, wire: bytes) -> None:
    name, meta, content, pointers = ndn.parse_data(wire)
    assert joined(name) == ours.name
    assert (meta.content_type or 0) == ours.content_type
    assert (meta.freshness_period or 0) == ours.freshness_ms
    assert bytes(content or b"") == ours.content
    assert pointers.signature_info.signature_type == ours.signature_type
    assert bytes(pointers.signature_value_buf) == ours.signature
    assert b"".join(bytes(part) for part in pointers.signature_covered_part) == ours.signed


@given(data())
def test_python_ndn_reads_our_data(wire: bytes) -> None:
    assert_same_data(parse_data(wire), wire)


@given(
    NAMES,
    st.none() | st.binary(max_size=300),
    st.none() | NNI,
    st.none() | NNI,
    st.none() | st.binary(min_size=1, max_size=9).map(lambda value: element(8, value)),
    st.builds(
        OurSigner,
        st.sampled_from([DIGEST_SHA256, 1, 3, 4, ED25519, 200]),
        st.none() | NAMES,
        st.binary(max_size=300),
    ),
)
def test_we_read_python_ndns_data(
    name: bytes,
    content: bytes | None,
    content_type: int | None,
    freshness_ms: int | None,
    final_block: bytes | None,
    signer: OurSigner,
) -> None:
    meta = ndn.MetaInfo(content_type, freshness_ms, final_block)
    wire = bytes(ndn.make_data(formal(name), meta, content, signer))
    ours = parse_data(wire)
    assert (ours.wire, ours.name) == (wire, name)
    assert (ours.content_type, ours.freshness_ms) == (content_type or 0, freshness_ms or 0)
    assert ours.content == (content or b"")
    assert (ours.signature_type, ours.signature) == (signer.signature_type, signer.signature)
    assert_same_data(ours, wire)


@given(interests(), st.sampled_from([50, 100, 150]) | NNI.filter(bool))
def test_both_build_the_same_nack(interest: bytes, reason: int) -> None:
    nack = make_lp(interest, nack_reason=reason)
    assert nack == bytes(ndn.make_network_nack(interest, reason))
    assert parse_lp(nack).nack_reason == reason
    assert ndn.parse_network_nack(nack)[0] == reason
    assert bytes(ndn.parse_lp_packet(nack)[1]) == interest


@given(interests())
def test_a_nack_without_a_reason(interest: bytes) -> None:
    nack = make_lp(interest, nack_reason=0)
    assert ndnlp_v2.parse_lp_packet_v2(nack).nack is not None
    assert bytes(ndn.parse_lp_packet(nack)[1]) == interest


@given(
    st.none() | st.binary(min_size=1, max_size=32),
    st.none() | NNI.filter(bool),
    st.none() | NNI.filter(bool),
    interests() | data(),
)
def test_link_headers_both_ways(
    pit_token: bytes | None, nack_reason: int | None, congestion_mark: int | None, fragment: bytes
) -> None:
    value = ndnlp_v2.LpPacketValue()
    value.pit_token = pit_token
    if nack_reason is not None:
        value.nack = ndnlp_v2.NetworkNack()
        value.nack.nack_reason = nack_reason
    value.congestion_mark = congestion_mark
    value.fragment = fragment
    packet = ndnlp_v2.LpPacket()
    packet.lp_packet = value
    theirs = bytes(packet.encode())
    ours = make_lp(
        fragment, pit_token=pit_token, nack_reason=nack_reason, congestion_mark=congestion_mark or 0
    )
    assert ours == theirs
    seen = parse_lp(theirs)
    assert (seen.pit_token, seen.nack_reason) == (pit_token, nack_reason)
    assert (seen.congestion_mark, seen.fragment) == (congestion_mark or 0, fragment)
    again = ndnlp_v2.parse_lp_packet_v2(ours)
    assert bytes(again.fragment) == fragment
    assert again.congestion_mark == congestion_mark
    assert (None if again.pit_token is None else bytes(again.pit_token)) == pit_token


@given(
    st.fixed_dictionaries({"incoming_face_id": st.none() | NNI, "next_hop_face_id": st.none() | NNI}), data()
)
def test_we_ignore_link_headers_that_we_have_no_use_for(
    fields: dict[str, int | None], fragment: bytes
) -> None:
    packet = ndnlp_v2.LpPacket()
    packet.lp_packet = ndnlp_v2.LpPacketValue()
    for field, value in fields.items():
        setattr(packet.lp_packet, field, value)
    packet.lp_packet.non_discovery = True
    packet.lp_packet.prefix_announcement = fragment
    packet.lp_packet.fragment = fragment
    assert parse_lp(bytes(packet.encode())).fragment == fragment


@given(data(ITEMS), NNI, NNI, st.none() | st.binary(min_size=1, max_size=32))
def test_a_push_is_ordinary_data_to_python_ndn(
    item: bytes, tip: int, limit: int, token: bytes | None
) -> None:
    """Its LP parser ignores FeedState, as it does every field that it does not know."""
    push = make_lp(item, tip=tip, limit=limit, pit_token=token)
    reason, fragment = ndn.parse_lp_packet(push)
    assert reason is None
    assert bytes(fragment) == item
    assert_same_data(parse_data(item), bytes(fragment))


def test_the_peer_is_the_version_that_this_was_written_against() -> None:
    assert version("python-ndn").startswith("0.5.")
