"""Whatever comes in: a reply or a counted drop, nothing else; nothing changes unless the reply says 200."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory_faces import START, Node
from signing import announcement, old_command, parameters, signed_command
from test_commands import state

from base.units import MS
from forwarder.management.feednet import FeednetModule
from forwarder.wire.lp import make_lp, parse_lp
from forwarder.wire.name import component, from_uri
from forwarder.wire.packet import make_interest, parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket, element, elements, nni, read_header, read_nni

COMPONENTS = st.builds(
    component, st.sampled_from([8, 8, 8, 1, 2, 32, 50, 54, 300]), st.binary(max_size=4)
) | (st.builds(component, st.sampled_from([1, 2]), st.binary(min_size=32, max_size=32)))
NAMES = st.lists(COMPONENTS, max_size=4).map(b"".join)
NNI = st.integers(0, 300) | st.integers(0, (1 << 64) - 1)
NUMBERS = [0x69, 0x6A, 0x6C, 0x6D, 0x6F, 0x70, 0x83, 0x84, 0x85, 0x87, 0x88, 0x89]
TEXTS = st.sampled_from([b"udp4://192.0.2.7:6363", b"udp4://x", b"", b"\xff"]) | st.binary(max_size=8)
STRATEGIES = st.sampled_from(
    [
        b"",
        *(
            from_uri(f"/localhost/nfd/strategy/{end}")
            for end in ("best-route", "multicast/v=5", "x", "multicast/v=5/a~b")
        ),
    ]
)
FIELDS = st.one_of(
    NAMES.map(lambda name: (7, name)),
    st.tuples(st.sampled_from(NUMBERS), NNI.map(nni)),
    st.tuples(st.sampled_from([0x72, 0x81]), TEXTS),
    (STRATEGIES | NAMES).map(lambda name: (0x6B, element(7, name))),
    st.tuples(st.integers(1, 300), st.binary(max_size=6)),
)
PARAMETERS = st.lists(FIELDS, max_size=5).map(lambda fields: parameters(*fields)) | st.binary(max_size=20)
VERBS = st.sampled_from(
    [
        "rib/register",
        "rib/unregister",
        "rib/announce",
        "rib/list",
        "fib/add-nexthop",
        "fib/remove-nexthop",
        "faces/create",
        "faces/update",
        "faces/destroy",
        "faces/query",
        "faces/events",
        "cs/config",
        "cs/erase",
        "cs/info",
        "strategy-choice/set",
        "strategy-choice/unset",
        "strategy-choice/list",
        "status/general",
        "feednet/status",
        "x/y",
    ]
)
COMMANDS = st.one_of(
    st.builds(
        signed_command,
        VERBS,
        PARAMETERS,
        prefix=st.sampled_from(["/localhost/nfd", "/localhop/nfd"]),
        payload=st.binary(max_size=20) | NAMES.map(lambda _: announcement("/pa")),
        spoil=st.booleans(),
    ),
    st.builds(old_command, VERBS, PARAMETERS, spoil=st.booleans()),
    st.builds(
        lambda verb, rest, flag: make_interest(
            from_uri(f"/localhost/nfd/{verb}") + rest, nonce=1, can_be_prefix=flag
        ),
        VERBS,
        NAMES,
        st.booleans(),
    ),
    st.binary(max_size=60),
)


def mutated(packet: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    for at, size, put in cuts:
        place = at % (len(packet) + 1)
        packet = packet[:place] + put + packet[place + size :]
    return packet


MUTANTS = st.builds(
    mutated,
    COMMANDS,
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=3)), max_size=2),
)


def code_of(content: bytes) -> int | None:
    """The StatusCode; None if it is no ControlResponse."""
    if content[:1] != b"\x65":
        return None
    _, at, end = read_header(content, 0, len(content))
    (kind, start, stop), *_ = elements(content, at, end)
    return read_nni(content[start:stop]) if kind == 0x66 else None


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(MUTANTS, st.booleans()), min_size=1, max_size=4))
@example([(signed_command("rib/register", parameters((7, b""))), True)])
def test_a_reply_or_a_counted_drop(packets: list[tuple[bytes, bool]]) -> None:
    node = Node()
    for packet, knows_face in packets:
        before, counted = state(node), sum(node.management.counters.values())
        dropped, queries = node.management.counters["dropped"], node.management.counters["queries"]
        framed = make_lp(packet, incoming_face=node.application) if knows_face and packet else packet
        node.management.receive(framed, START)
        replies = node.collect()
        assert sum(node.management.counters.values()) == counted + 1 or node.faces.waiting
        assert len(replies) <= 2  # an answer, and an event that somebody waited for
        codes = [code_of(parse_data(reply).content) for reply in replies]
        if 200 not in codes:
            assert state(node) == before
        if not replies and not node.faces.waiting:
            is_waiting = b"events" in packet and node.management.counters["queries"] == queries + 1
            assert node.management.counters["dropped"] == dropped + (not is_waiting)
        for reply in replies:
            asked = open_name(framed)
            assert asked is None or parse_data(reply).name.startswith(asked) or len(replies) > 1
        node.faces.waiting = []
    node.management.wake(START + 10_000 * MS)
    node.forwarder.receive(node.application, make_interest(from_uri("/after"), nonce=1), START)


def open_name(packet: bytes) -> bytes | None:
    try:
        return parse_interest(parse_lp(packet).fragment).name
    except MalformedPacket:
        return None


@settings(max_examples=60, deadline=None)
@given(st.lists(MUTANTS, min_size=1, max_size=6))
def test_through_the_whole_node(packets: list[bytes]) -> None:
    node = Node()
    node.management.extend(FeednetModule(node.forwarder))
    for packet in packets:
        if node.application in node.forwarder.faces:
            node.forward(packet)
    assert FeednetModule(node.forwarder).status(START)["pit"]["entries"] == len(node.forwarder.pit)
