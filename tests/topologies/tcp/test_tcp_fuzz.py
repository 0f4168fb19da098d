"""Bytes that nobody has sent: no exception, and no connection lost to a segment outside its window."""

from contextlib import suppress
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st
from scripted_peer import ALIVE, PEERS_PORT, PSEUDO, SYNCHRONIZED, A, B, in_state, next_sequence
from tcp_world import PORT, Talker, World, conversation

from base.units import MS, SECOND
from topologies.emulator.tcp.segment import RST, SYN, MalformedSegment, Segment, decode, encode, pseudo_header
from topologies.emulator.tcp.settings import Settings
from topologies.emulator.tcp.stack import Stack
from topologies.emulator.tcp.states import State
from topologies.model import Link

EDITS = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), max_size=4)
NUMBERS = st.one_of(st.integers(0, (1 << 32) - 1), st.integers(-70_000, 70_000), st.integers(-2, 3))
SEGMENTS = st.lists(
    st.tuples(
        NUMBERS,
        NUMBERS,
        st.integers(0, 63),
        st.integers(0, 0xFFFF),
        st.binary(max_size=40),
        st.binary(max_size=60),
    ),
    max_size=12,
)
LIVELY = [state for state in SYNCHRONIZED if state is not State.TIME_WAIT]
LONG = 1_000_000 * SECOND


def make_sound(octets, pseudo):
    """Set the checksum right."""
    if len(octets) < 18:
        return octets
    blank = octets[:16] + bytes(2) + octets[18:]
    total = pseudo + len(blank) + (int.from_bytes(blank) << (len(blank) % 2 * 8))
    return octets[:16] + (-total % 0xFFFF).to_bytes(2) + octets[18:]


@given(st.binary(max_size=80), st.booleans())
@example(bytes(19), False)
@example(bytes(12) + b"\xf0" + bytes(47), True)
def test_a_segment_or_a_malformed_one(octets, is_sound):
    octets = make_sound(octets, PSEUDO) if is_sound else octets
    with suppress(MalformedSegment):
        assert isinstance(decode(octets, PSEUDO), Segment)


def check_sound(stack, now):
    """What a stack gives out is sound, and nothing is due that was not woken for."""
    for source, destination, octets in stack.take_segments():
        decode(octets, pseudo_header(source, destination))
        assert source == B
    deadline = stack.next_deadline()
    assert deadline is None or deadline > now
    stack.take_events()


@given(st.lists(st.binary(max_size=80), max_size=5))
@example([bytes(19)])
def test_any_bytes_are_dropped_or_taken(inputs):
    stack = Stack([B], Random(1))
    stack.listen(PORT)
    for octets in inputs:
        stack.receive(octets, A, B, 0)
        check_sound(stack, 0)
    assert stack.counters.received == len(inputs)


@settings(max_examples=200)
@given(SEGMENTS, st.sampled_from(ALIVE), st.booleans())
def test_any_segments_with_right_checksums(inputs, state, has_data):
    """Fields near those expected, and far; options of any bytes; in every state, with data or without."""
    peer = in_state(state)
    stack = peer.stack
    if has_data:
        stack.send(peer.number, bytes(9000), 0)
        peer.answers()
    for sequence, acknowledgement, flags, window, option_bytes, payload in inputs:
        peer.run(peer.now + 50 * MS)
        padded = option_bytes + bytes(-len(option_bytes) % 4)
        octets = encode(
            *(PSEUDO, PEERS_PORT, peer.port, peer.mine + sequence, peer.theirs + acknowledgement),
            *(flags, window, padded, payload),
        )
        stack.receive(octets, A, B, peer.now)
        check_sound(stack, peer.now)
        if peer.number in stack._numbers:
            stack.read(peer.number, 10, peer.now)
            check_sound(stack, peer.now)
    # Whoever still has bytes to say to a window of zero that is confirmed asks for ever; all else ends.
    peer.run(peer.now + 2000 * SECOND)


@settings(max_examples=200)
@given(
    st.sampled_from(LIVELY),
    st.lists(
        st.tuples(
            st.one_of(st.integers(-(1 << 31) + 200, -100), st.integers(1 << 18, (1 << 31) - 200)),
            NUMBERS,
            st.integers(0, 63),
            st.integers(0, 0xFFFF),
            st.binary(max_size=60),
        ),
        max_size=12,
    ),
)
def test_no_connection_is_lost_outside_its_window(state, inputs):
    """RFC 9293, section 3.10.7.4, first check; RFC 5961: nobody breaks in who does not know the numbers."""
    peer = in_state(state)
    answered = 0
    for sequence, acknowledgement, flags, window, payload in inputs:
        number = next_sequence(state) + sequence
        answers = peer.say(flags, number, acknowledgement, payload, window)
        assert all(not segment.length and not segment.flags & (RST | SYN) for segment in answers)
        answered += len(answers)
        assert peer.state() is state
        assert peer.stack.read(peer.number, 10, peer.now) == b""
    assert answered <= len(inputs)


@settings(max_examples=60)
@given(st.integers(0), st.lists(EDITS, min_size=1, max_size=20))
def test_mutated_segments_of_a_conversation(seed, edits):
    """What is changed on the way is dropped, or comes to what its checksum, set right, lets it be."""
    world = World(Link("a", "b", bw_mbit=10, delay_ms=5, loss_percent=5), seed, (Settings(msl=SECOND),) * 2)
    rng = Random(seed)
    pseudo = pseudo_header(*world.addresses)

    def mangle(_node, octets):
        if rng.random() < 0.1:
            changed = bytearray(octets)
            for place, value in rng.choice(edits):
                changed[place % len(changed)] = value
            return make_sound(bytes(changed), pseudo)
        return octets

    world.mangle = mangle
    talkers = [Talker(world, node, data=bytes(8000)) for node in (0, 1)]
    conversation(world, talkers)
    world.run(30 * SECOND)
    world.mangle = None
    assert world.run(LONG), "it never ends"
