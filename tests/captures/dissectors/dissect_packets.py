"""Packets for the tests of the dissectors: what Hypothesis draws, and one of each kind by hand."""

from hypothesis import strategies as st

from captures.dissectors import (
    Data,
    FeedState,
    ForkProof,
    Hello,
    Interest,
    KeyLocator,
    LpPacket,
    MetaInfo,
    NativeItem,
    Selectors,
    SignatureInfo,
    SsbItem,
    Standing,
    ValidityPeriod,
)
from forwarder.wire.feed import item_name
from forwarder.wire.name import component, from_uri, to_uri
from forwarder.wire.packet import KNOWN, SEND_CREDIT

KEY = bytes(range(32))
FEED = from_uri("/ssb/logs") + component(8, KEY)

_EDGES = [0, 1, 255, 256, 65535, 65536, 1 << 32, (1 << 64) - 1]
numbers = st.integers(0, (1 << 64) - 1) | st.sampled_from(_EDGES)
blobs = st.binary(max_size=300)
components = st.one_of(
    st.tuples(st.sampled_from([1, 2]), st.binary(min_size=32, max_size=32)),
    st.tuples(st.sampled_from([8, 32, 50, 52, 54, 56, 58, 252, 253, 65535]), st.binary(max_size=12)),
    numbers.map(lambda number: (58, number.to_bytes(8, "big").lstrip(b"\0") or b"\0")),
)
names = st.lists(components, min_size=1, max_size=6).map(
    lambda parts: to_uri(b"".join(component(kind, value) for kind, value in parts))
)
feeds = st.just(to_uri(FEED))
sequence_numbers = st.integers(1, (1 << 64) - 2) | st.integers(1, 300)


def maybe(strategy):
    return st.none() | strategy


def given_fields(**fields):
    """Draw keyword arguments, without those that are None."""
    return st.fixed_dictionaries(fields).map(
        lambda drawn: {name: value for name, value in drawn.items() if value is not None}
    )


# Types that may be ignored, and that no layer knows.
unknown = st.tuples(st.sampled_from([100, 200, 254, 1000]), blobs)
ignored = maybe(st.lists(unknown, min_size=1, max_size=2))
# And in an Interest for no item, of others, what would make it long-lived.
others = maybe(
    st.lists(
        unknown | st.tuples(st.sampled_from([SEND_CREDIT, KNOWN]), blobs.filter(len)), min_size=1, max_size=2
    )
)
sources = st.tuples(
    st.integers(0, (1 << 64) - 2) | st.integers(0, 300),
    st.integers(0, 63),
    st.booleans(),
    st.just(b"") | st.binary(min_size=64, max_size=64),
).map(lambda source: source if source[2] else source[:3])
validities = given_fields(not_before=maybe(st.just(b"20260101T000000")), not_after=maybe(blobs)).map(
    lambda fields: ValidityPeriod(**fields)
)
locators = (names.map(lambda name: KeyLocator(key_name=name))) | blobs.map(lambda d: KeyLocator(key_digest=d))
signature_infos = given_fields(
    signature_type=numbers,
    key_locator=maybe(locators),
    signature_nonce=maybe(blobs),
    signature_time=maybe(numbers),
    signature_seq_num=maybe(numbers),
    validity=maybe(validities),
    ignored=ignored,
).map(lambda fields: SignatureInfo(**fields))
meta_infos = given_fields(
    content_type=maybe(numbers),
    freshness=maybe(numbers),
    final_block=maybe(components.map(lambda part: to_uri(component(*part))[1:])),
    ignored=ignored,
).map(lambda fields: MetaInfo(**fields))

interests = given_fields(
    # With its digest: a name that had none would get one.
    name=names.map(lambda name: name + "/params-sha256=" + 64 * "0"),
    can_be_prefix=st.booleans(),
    must_be_fresh=st.booleans(),
    forwarding_hint=maybe(st.lists(names, max_size=3)),
    nonce=maybe(st.integers(0, (1 << 32) - 1)),
    lifetime=maybe(numbers),
    hop_limit=maybe(st.integers(0, 255)),
    parameters=maybe(blobs),
    persistent=st.booleans(),
    ignored=others,
).map(lambda fields: Interest(**fields))
llis = given_fields(
    name=sequence_numbers.map(lambda seq: to_uri(item_name(FEED, seq))),
    nonce=st.integers(0, (1 << 32) - 1),
    must_be_fresh=st.booleans(),
    send_credit=numbers,
    known=maybe(sources | st.just(())),
).map(lambda fields: Interest(**fields))
signed_interests = st.builds(
    lambda interest, info, value: interest.__class__(
        **{
            **{name: interest.getfieldval(name) for name in interest.fields},
            "parameters": b"p",
            "signature_info": info,
            "signature_value": value,
        }
    ),
    interests,
    signature_infos,
    blobs,
)

item_contents = st.builds(
    lambda link, body: NativeItem(body=body) if link is None else NativeItem(backlink=link, body=body),
    maybe(st.binary(min_size=32, max_size=32)),
    blobs,
) | blobs.map(lambda message: SsbItem(message=message))


def signed(name, content, meta=None, info=None, value=b""):
    packet = Data(name=name, signature_info=info or SignatureInfo(signature_type=5), signature_value=value)
    if content is not None:
        packet.content = content
    if meta is not None:
        packet.meta_info = meta
    return packet


items = st.builds(
    lambda seq, content, value: signed(to_uri(item_name(FEED, seq)), content, value=value),
    sequence_numbers,
    item_contents,
    blobs,
)
proofs = st.builds(
    lambda one, other, seq: signed(
        f"{to_uri(FEED)}/32=fork/{to_uri(component(58, bytes([seq])))[1:]}", ForkProof(halves=[one, other])
    ),
    items,
    items,
    st.integers(1, 255),
)
datas = st.builds(
    lambda name, content, meta, info, value: signed(name + "/end", content, meta, info, value),
    names,
    maybe(blobs),
    maybe(meta_infos),
    signature_infos,
    blobs,
)
states = given_fields(
    feed=maybe(names), tip=numbers, limit=numbers, first=maybe(numbers), evidence=maybe(sources)
).map(lambda fields: FeedState(**fields))
references = st.binary(min_size=8, max_size=8)
standings = st.lists(
    given_fields(reference=references, evidence=maybe(sources), ignored=ignored).map(
        lambda fields: Standing(**fields)
    )
    | given_fields(reference=references, next=numbers, limit=numbers, evidence=maybe(sources)).map(
        lambda fields: Standing(**fields)
    ),
    min_size=1,
    max_size=3,
)
hellos = given_fields(
    number=maybe(numbers),
    reply=maybe(numbers),
    granted=maybe(references),
    held=maybe(references),
    have=maybe(standings),
    state=maybe(standings),
    forgotten=st.booleans(),
    ignored=ignored,
).map(lambda fields: Hello(**fields))
network_packets = interests | signed_interests | llis | datas | items | proofs


@st.composite
def link_packets(draw):
    fields = draw(
        given_fields(
            sequence=maybe(numbers),
            pit_token=maybe(st.binary(min_size=1, max_size=32)),
            nack_reason=maybe(st.sampled_from([0, 50, 100, 150]) | numbers),
            incoming_face_id=maybe(numbers),
            next_hop_face_id=maybe(numbers),
            cache_policy=maybe(st.sampled_from([1, 2])),
            congestion_mark=maybe(numbers),
            ack=maybe(st.lists(numbers, min_size=1, max_size=3)),
            tx_sequence=maybe(numbers),
            non_discovery=st.booleans(),
            prefix_announcement=maybe(datas),
            feed_state=maybe(states),
            hello=maybe(hellos),
        )
    )
    if draw(st.booleans()):
        fields["frag_count"] = draw(st.integers(2, 5))
        fields["frag_index"] = draw(st.integers(0, fields["frag_count"] - 1))
        return LpPacket(**fields) / draw(st.binary(min_size=1, max_size=100))
    packet = LpPacket(**fields)
    return packet / draw(network_packets) if draw(st.booleans()) else packet


packets = network_packets | link_packets()

_ITEM = signed(to_uri(item_name(FEED, 2)), NativeItem(backlink=bytes(32), body="two"), value=bytes(64))
_OTHER = signed(to_uri(item_name(FEED, 2)), NativeItem(backlink=bytes(32), body="2"), value=bytes(64))
EXAMPLES = {
    "Interest /a/b CanBePrefix MustBeFresh": Interest(name="/a/b", can_be_prefix=True, must_be_fresh=True),
    "Interest /a/params-sha256=..3418ae parameters 1 bytes": Interest(name="/a", parameters=b"x"),
    "Interest /a CanBePrefix MustBeFresh [old packet format (Selectors)]": Interest(
        name="/a", selectors=Selectors(min_suffix_components=1, must_be_fresh=True, exclude=b"x"), nonce=7
    ),
    "Interest /a [old packet format (Selectors)]": Interest(
        name="/a", selectors=Selectors(max_suffix_components=1, child_selector=0), nonce=7, lifetime=9
    ),
    "persistent Interest /a": Interest(name="/a", persistent=True),
    "LLI /ssb/logs/..%1D%1E%1F items 1..64": Interest(name=item_name(FEED, 1), send_credit=64),
    "LLI /ssb/logs/..%1D%1E%1F item 5": Interest(name=item_name(FEED, 5), send_credit=1),
    "LLI /ssb/logs/..%1D%1E%1F cancel": Interest(name=item_name(FEED, 5), send_credit=0),
    f"LLI /ssb/logs/..%1D%1E%1F items 9..{2**64 - 1}": Interest(
        name=item_name(FEED, 9), send_credit=2**64 - 1
    ),
    "LLI /ssb/logs/..%1D%1E%1F item 5 known (7, 2)": Interest(
        name=item_name(FEED, 5), send_credit=1, known=(7, 2)
    ),
    "Interest /a/b": Interest(name="/a/b", send_credit=3),
    "Data /a/v=7/seg=0 3 bytes": Data(name="/a/v=7/seg=0", content=b"abc"),
    "Data /a 0 bytes": Data(name="/a"),
    "Data /ssb/logs/..%1D%1E%1F/seq=2 native item 3 bytes": _ITEM,
    "Data /ssb/logs/..%1D%1E%1F/seq=1 SSB message 2 bytes": signed(item_name(FEED, 1), SsbItem(message="{}")),
    "Data /ssb/logs/..%1D%1E%1F/seq=4 1 bytes": signed(item_name(FEED, 4), b"?"),
    "Data /ssb/logs/..%1D%1E%1F/32=fork/seq=2 fork proof": signed(
        FEED + component(32, b"fork") + component(58, b"\2"), ForkProof(halves=[_ITEM, _OTHER])
    ),
    "Nack NoRoute LLI /ssb/logs/..%1D%1E%1F items 1..4": LpPacket(nack_reason="NoRoute")
    / Interest(name=item_name(FEED, 1), send_credit=4),
    "Nack 7 Interest /a": LpPacket(nack_reason=7) / Interest(name="/a"),
    "Nack Interest /a": LpPacket(nack_reason=0) / Interest(name="/a"),
    "Nack": LpPacket(nack_reason=0),
    "FeedState /ssb/logs/..%1D%1E%1F tip 4 limit 8 first 5": LpPacket(
        feed_state=FeedState(feed=FEED, tip=4, limit=8, first=5)
    ),
    "FeedState /ssb/logs/..%1D%1E%1F tip 4 limit 8 evidence (7, 2)": LpPacket(
        feed_state=FeedState(feed=FEED, tip=4, limit=8, evidence=(7, 2, True, bytes(64)))
    ),
    "Hello": LpPacket(hello=Hello()),
    "Hello granted 060708": LpPacket(hello=Hello(granted=bytes(range(1, 9)))),
    "Hello no. 7 held 060708 2 haves state 060708 items 5..64 (7, 2)": LpPacket(
        hello=Hello(
            number=7,
            held=bytes(range(1, 9)),
            have=[Standing(reference=bytes(8), next=1, limit=1), Standing(reference=bytes(8))],
            state=[Standing(reference=bytes(range(1, 9)), next=5, limit=64, evidence=(7, 2))],
        )
    ),
    "Hello to no. 7 have 060708 none forgotten": LpPacket(
        hello=Hello(reply=7, have=[Standing(reference=bytes(range(1, 9)))], forgotten=True)
    ),
    "Data /ssb/logs/..%1D%1E%1F/seq=2 native item 3 bytes [tip 2 limit 8]": LpPacket(
        feed_state=FeedState(tip=2, limit=8)
    )
    / _ITEM,
    "Interest /a [congestion mark 1]": LpPacket(congestion_mark=1) / Interest(name="/a"),
    "Fragment 2/3": LpPacket(sequence=6, frag_index=1, frag_count=3) / b"piece",
    "Ack": LpPacket(ack=[5, 6]),
    "Idle": LpPacket(),
    "Malformed packet, 5 bytes: empty Name": LpPacket() / b"\x05\x03\x07\x00?",
}
"""One packet of each kind, by the line that says what it is."""
