"""Events of a stack for its applications."""

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """An event of a connection.

    After ACCEPTED or a connect() the last event is one CLOSED or FAILED; after an abort() there is none.
    """

    ACCEPTED = "opened by another, at a port that is listened to"
    CONNECTED = "opened by connect()"
    READABLE = "bytes have come that were not there at the last read()"
    WRITABLE = "a third of the send buffer is free again, after send() had taken less than it was given"
    PEER_CLOSED = "the other end sends no more; after what is unread, read() has nothing"
    CLOSED = "both ends have closed, and all has arrived; what is unread can still be read"
    FAILED = "over, with a reason; what is unread or not acknowledged is gone"


class Reason(Enum):
    """Why a connection has failed."""

    NONE = ""
    REFUSED = "nobody listens there"
    RESET = "the other end has broken it off, or does not know it"
    TIMED_OUT = "the other end has not answered for too long"


class Event(NamedTuple):
    """An event of a connection; `port`: the listener's port of ACCEPTED, else 0."""

    kind: Kind
    connection: int
    reason: Reason = Reason.NONE
    port: int = 0
