"""One stack and a peer that is played by the test, segment by segment; and how each state is reached."""

from random import Random

from base.units import SECOND
from topologies.emulator.tcp.segment import ACK, FIN, RST, SYN, decode, encode, pseudo_header
from topologies.emulator.tcp.settings import Settings
from topologies.emulator.tcp.stack import Stack, UnknownConnection
from topologies.emulator.tcp.states import State

A, B = "10.0.0.1", "10.0.0.2"
PORT, PEERS_PORT = 8008, 4000
WINDOW = 50_000
PSEUDO = pseudo_header(A, B)
RULES = Settings(msl=SECOND)


class ScriptedPeer:
    """Plays A; the stack is B's. Sequence numbers count from each end's SYN, which is 0."""

    def __init__(self, seed=1, first=77_000):
        self.stack = Stack([B], Random(seed), RULES)
        self.stack.listen(PORT)
        self.now = 0
        self.number = None
        self.events = []
        self.mine = first
        self.theirs = 0
        self.port = PORT

    def say(self, flags, sequence=1, acknowledgement=1, payload=b"", window=WINDOW, option_bytes=b""):
        """Have a segment arrive; return what is answered at once."""
        octets = encode(
            *(PSEUDO, PEERS_PORT, self.port, self.mine + sequence),
            *(self.theirs + acknowledgement if flags & ACK else 0, flags, window, option_bytes, payload),
        )
        self.stack.receive(octets, A, B, self.now)
        return self.answers()

    def answers(self):
        """Return what the stack has to send now, as segments."""
        found = [decode(octets, PSEUDO) for _, _, octets in self.stack.take_segments()]
        self.events += [event.kind for event in self.stack.take_events()]
        return found

    def plain(self, segments):
        """Return flags, and numbers counted from the SYNs."""
        return [
            (segment.flags & (SYN | ACK | FIN | RST), *self.numbers(segment), segment.payload)
            for segment in segments
        ]

    def numbers(self, segment):
        sequence = (segment.sequence - self.theirs) % (1 << 32)
        return sequence, (segment.acknowledgement - self.mine) % (1 << 32) if segment.flags & ACK else None

    def state(self):
        try:
            return self.stack.state(self.number)
        except UnknownConnection:
            return State.CLOSED

    def accept(self):
        """The peer's SYN: SYN-RECEIVED."""
        (answer,) = self.say(SYN, 0)
        self.theirs = answer.sequence
        (self.number,) = self.stack._numbers
        return self

    def connect(self):
        """Our SYN: SYN-SENT."""
        self.number = self.stack.connect(A, PEERS_PORT, self.now)
        (syn,) = self.answers()
        self.theirs = syn.sequence
        self.port = syn.source_port
        return self

    def close(self):
        self.stack.close(self.number, self.now)
        return self.answers()

    def run(self, until):
        """Let timers expire; return what is sent."""
        found = []
        while (deadline := self.stack.next_deadline()) is not None and deadline <= until:
            self.now = max(deadline, self.now)
            self.stack.wake(self.now)
            found += self.answers()
        self.now = max(self.now, until)
        return found


def in_state(state, seed=1, first=77_000):
    """Return a peer whose stack's connection is in that state; all but its last step are acknowledged."""
    peer = ScriptedPeer(seed, first)
    if state is State.SYN_SENT:
        return peer.connect()
    peer.accept()
    if state is State.SYN_RECEIVED:
        return peer
    peer.say(ACK)
    if state in (State.CLOSE_WAIT, State.LAST_ACK):
        peer.say(FIN | ACK)
    if state not in (State.ESTABLISHED, State.CLOSE_WAIT):
        peer.close()
    if state in (State.FIN_WAIT_2, State.TIME_WAIT):
        peer.say(ACK, 1, 2)
    if state in (State.CLOSING, State.TIME_WAIT):
        peer.say(FIN | ACK, 1, 2 if state is State.TIME_WAIT else 1)
    assert peer.state() is state
    return peer


SYNCHRONIZED = (
    *(State.ESTABLISHED, State.FIN_WAIT_1, State.FIN_WAIT_2, State.CLOSE_WAIT),
    *(State.CLOSING, State.LAST_ACK, State.TIME_WAIT),
)
ALIVE = (State.SYN_SENT, State.SYN_RECEIVED, *SYNCHRONIZED)


def next_sequence(state):
    """The number that the peer sends next in that state: its FIN, if it has come, counts one."""
    ended = (State.CLOSE_WAIT, State.LAST_ACK, State.CLOSING, State.TIME_WAIT)
    return 2 if state in ended else 0 if state is State.SYN_SENT else 1
