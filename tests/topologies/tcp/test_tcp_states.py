"""The state machine, row by row (RFC 9293, figure 5 and section 3.10.7), and blind attacks (RFC 5961)."""

import pytest
from scripted_peer import ALIVE, SYNCHRONIZED, ScriptedPeer, in_state, next_sequence

from base.units import SECOND
from topologies.emulator.tcp.events import Kind
from topologies.emulator.tcp.segment import ACK, FIN, RST, SYN
from topologies.emulator.tcp.states import TRANSITIONS, State

S = State
BLIND = [state for state in SYNCHRONIZED if state is not S.TIME_WAIT]


@pytest.mark.parametrize(
    ("state", "said", "after"),
    [
        # (flags, SEG.SEQ, SEG.ACK), counted from the SYNs
        (S.SYN_SENT, (SYN | ACK, 0, 1), S.ESTABLISHED),
        (S.SYN_SENT, (SYN, 0, 0), S.SYN_RECEIVED),
        (S.SYN_SENT, (RST | ACK, 0, 1), S.CLOSED),
        (S.SYN_SENT, (RST, 0, 0), S.SYN_SENT),
        (S.SYN_SENT, (ACK, 0, 1), S.SYN_SENT),
        (S.SYN_RECEIVED, (ACK, 1, 1), S.ESTABLISHED),
        (S.SYN_RECEIVED, (FIN | ACK, 1, 1), S.CLOSE_WAIT),
        (S.SYN_RECEIVED, (RST, 1, 0), S.CLOSED),
        (S.ESTABLISHED, (FIN | ACK, 1, 1), S.CLOSE_WAIT),
        (S.FIN_WAIT_1, (ACK, 1, 2), S.FIN_WAIT_2),
        (S.FIN_WAIT_1, (FIN | ACK, 1, 1), S.CLOSING),
        (S.FIN_WAIT_1, (FIN | ACK, 1, 2), S.TIME_WAIT),
        (S.FIN_WAIT_2, (FIN | ACK, 1, 2), S.TIME_WAIT),
        (S.CLOSING, (ACK, 2, 2), S.TIME_WAIT),
        (S.LAST_ACK, (ACK, 2, 2), S.CLOSED),
        (S.TIME_WAIT, (FIN | ACK, 1, 2), S.TIME_WAIT),
        (S.TIME_WAIT, (RST, 2, 0), S.CLOSED),
    ],
)
def test_a_segment_moves_it(state, said, after):
    peer = in_state(state)
    peer.say(*said)
    assert peer.state() is after


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (S.ESTABLISHED, S.FIN_WAIT_1),
        (S.CLOSE_WAIT, S.LAST_ACK),
        (S.FIN_WAIT_1, S.FIN_WAIT_1),
        (S.FIN_WAIT_2, S.FIN_WAIT_2),
    ],
)
def test_close_moves_it(state, after):
    peer = in_state(state)
    sent = peer.plain(peer.close())
    assert peer.state() is after
    here = next_sequence(state)
    assert sent == ([(FIN | ACK, 1, here, b"")] if after is not state else [])


@pytest.mark.parametrize("state", ALIVE)
def test_abort_ends_it_and_says_so(state):
    peer = in_state(state)
    peer.stack.abort(peer.number, peer.now)
    sent = peer.answers()
    assert [segment.flags for segment in sent] == (
        [] if state in (S.SYN_SENT, S.TIME_WAIT) else [RST | ACK]
    )  # RFC 9293, section 3.10.5
    assert peer.state() is S.CLOSED
    assert peer.run(1000 * SECOND) == []
    assert peer.stack.is_idle()


@pytest.mark.parametrize("how", ["connects", "accepts"])
def test_close_before_it_is_open_waits(how):
    peer = ScriptedPeer()
    peer = peer.connect() if how == "connects" else peer.accept()
    peer.stack.send(peer.number, b"last words", 0)
    assert peer.close() == []
    (both,) = peer.plain(peer.say(SYN | ACK, 0) if how == "connects" else peer.say(ACK))
    assert both == (FIN | ACK, 1, 1, b"last words")
    assert peer.state() is S.FIN_WAIT_1


def test_time_wait_lasts_two_lifetimes_after_the_last_fin():
    peer = in_state(S.TIME_WAIT)
    peer.run(SECOND)
    assert peer.plain(peer.say(FIN | ACK, 1, 2)) == [(ACK, 2, 2, b"")]
    peer.run(3 * SECOND - 1)
    assert peer.state() is S.TIME_WAIT
    peer.run(3 * SECOND)
    assert peer.state() is S.CLOSED
    assert peer.stack.is_idle()


@pytest.mark.parametrize("state", ALIVE)
def test_alone_it_ends(state):
    """Every timer ends: whoever waits for an answer gives up, who waits for nothing sets no timer."""
    peer = in_state(state)
    peer.stack.send(peer.number, b"unheard", peer.now)
    sent = peer.answers() + peer.run(100_000 * SECOND)
    assert peer.stack.next_deadline() is None
    assert peer.state() is (S.FIN_WAIT_2 if state is S.FIN_WAIT_2 else S.CLOSED)
    assert len(sent) <= 14


@pytest.mark.parametrize("state", BLIND)
def test_a_reset_beside_the_next_byte_is_challenged(state):
    """RFC 5961, section 3.2."""
    peer = in_state(state)
    here = next_sequence(state)
    answer = peer.plain(peer.say(RST, here + 1))
    assert [flags for flags, *_ in answer] == [ACK]
    assert peer.state() is state
    assert peer.say(RST, here - 1) == []
    assert peer.say(RST, here + (1 << 20)) == []
    assert peer.state() is state
    peer.say(RST, here)
    assert peer.state() is S.CLOSED
    assert peer.events[-1] is Kind.FAILED


@pytest.mark.parametrize("state", SYNCHRONIZED)
@pytest.mark.parametrize("far", [-1 << 30, -70_000, -1, 0, 1, 1 << 20, 1 << 30])
def test_a_syn_is_challenged(state, far):
    """RFC 5961, section 4.2: wherever its number is."""
    peer = in_state(state)
    assert [flags for flags, *_ in peer.plain(peer.say(SYN, next_sequence(state) + far))] == [ACK]
    assert peer.state() is state


@pytest.mark.parametrize("state", BLIND)
@pytest.mark.parametrize("far", [-(1 << 30), -60_000, 2, 1000, 1 << 30])
def test_a_strange_acknowledgement_is_challenged_and_its_bytes_dropped(state, far):
    """RFC 5961, section 5.2."""
    peer = in_state(state)
    last = 1 if state in (S.ESTABLISHED, S.CLOSE_WAIT) else 2
    answer = peer.plain(peer.say(ACK, next_sequence(state), last + far, b"x"))
    assert [flags for flags, *_ in answer] == [ACK]
    assert peer.state() is state
    assert peer.stack.read(peer.number, 10, peer.now) == b""


@pytest.mark.parametrize("state", BLIND)
@pytest.mark.parametrize("flags", [ACK, FIN | ACK, ACK | SYN, 0, FIN])
@pytest.mark.parametrize("far", [-(1 << 31) + 10, -70_000, 1 << 20, 1 << 30])
def test_what_is_not_in_the_window_changes_nothing(state, flags, far):
    peer = in_state(state)
    answer = peer.plain(peer.say(flags, next_sequence(state) + far, 1, b"stranger"))
    assert [what for what, *_ in answer] == [ACK]
    assert peer.state() is state
    assert peer.stack.read(peer.number, 10, peer.now) == b""


def test_challenges_have_a_limit():
    """RFC 5961, section 7: two ends must not answer each other for ever."""
    peer = in_state(S.ESTABLISHED)
    answers = [peer.say(RST, 5) for _ in range(100)]
    assert sum(map(len, answers)) == 10
    peer.run(5 * SECOND)
    assert len(peer.say(RST, 5)) == 1


def test_simultaneous_open():
    """RFC 9293, figure 8."""
    peer = ScriptedPeer().connect()
    assert peer.plain(peer.say(SYN, 0)) == [(SYN | ACK, 0, 1, b"")]
    assert peer.state() is S.SYN_RECEIVED
    assert peer.say(SYN | ACK, 0) == []
    assert peer.state() is S.ESTABLISHED


def test_the_table_is_that_of_figure_5():
    """Nothing leads back, and every state but LISTEN, which is the stack's, is reached here."""
    targets = {after for row in TRANSITIONS.values() for after in row.values()}
    assert targets == set(State)
    assert set(TRANSITIONS) == set(State)
    assert {in_state(state).state() for state in ALIVE} == set(State) - {S.CLOSED, S.LISTEN}
