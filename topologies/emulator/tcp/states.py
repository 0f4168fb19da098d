"""The states of a connection and their transitions: figure 5 of RFC 9293, section 3.3.2."""

from enum import StrEnum


# Texts, as these are keys that each segment looks up: C hashes texts.
class State(StrEnum):
    """State of a connection (section 3.3.2)."""

    CLOSED = "closed"
    LISTEN = "listen"
    SYN_SENT = "syn-sent"
    SYN_RECEIVED = "syn-received"
    ESTABLISHED = "established"
    FIN_WAIT_1 = "fin-wait-1"
    FIN_WAIT_2 = "fin-wait-2"
    CLOSE_WAIT = "close-wait"
    CLOSING = "closing"
    LAST_ACK = "last-ack"
    TIME_WAIT = "time-wait"


class Step(StrEnum):
    """Inputs of the state machine."""

    LISTEN = "the application waits for others"
    CONNECT = "the application asks for a connection: SYN goes out"
    SYN = "the other's SYN comes without an acknowledgement of ours"
    SYN_ACK = "the other's SYN comes with an acknowledgement of ours"
    SYN_ACKED = "the acknowledgement of our SYN comes after the other's SYN"
    CLOSE = "the application has no more to send: FIN goes out after what is buffered"
    FIN = "the other's FIN has come, and all before it"
    FIN_ACKED = "the acknowledgement of our FIN comes"
    OVER = "reset, aborted, timed out, or TIME-WAIT is over"


TRANSITIONS: dict[State, dict[Step, State]] = {
    State.CLOSED: {Step.LISTEN: State.LISTEN, Step.CONNECT: State.SYN_SENT},
    State.LISTEN: {Step.SYN: State.SYN_RECEIVED, Step.OVER: State.CLOSED},
    State.SYN_SENT: {
        Step.SYN: State.SYN_RECEIVED,
        Step.SYN_ACK: State.ESTABLISHED,
        Step.OVER: State.CLOSED,
    },
    State.SYN_RECEIVED: {Step.SYN_ACKED: State.ESTABLISHED, Step.OVER: State.CLOSED},
    State.ESTABLISHED: {
        Step.CLOSE: State.FIN_WAIT_1,
        Step.FIN: State.CLOSE_WAIT,
        Step.OVER: State.CLOSED,
    },
    State.FIN_WAIT_1: {
        Step.FIN: State.CLOSING,
        Step.FIN_ACKED: State.FIN_WAIT_2,
        Step.OVER: State.CLOSED,
    },
    State.FIN_WAIT_2: {Step.FIN: State.TIME_WAIT, Step.OVER: State.CLOSED},
    State.CLOSE_WAIT: {Step.CLOSE: State.LAST_ACK, Step.OVER: State.CLOSED},
    State.CLOSING: {Step.FIN_ACKED: State.TIME_WAIT, Step.OVER: State.CLOSED},
    State.LAST_ACK: {Step.FIN_ACKED: State.CLOSED, Step.OVER: State.CLOSED},
    State.TIME_WAIT: {Step.OVER: State.CLOSED},
}
"""The state machine. A step missing in a state's row cannot happen there: it is a bug, and raises KeyError.

Two differences from the figure. SYN-RECEIVED and SYN-SENT have no step CLOSE: a close() before the connection
is open takes effect afterwards, so that buffered data arrive. And FIN with an acknowledgement of ours takes
two steps, first FIN_ACKED.
"""
