"""One connection of a peer: a channel, the calls on it, and their purposes."""

from dataclasses import dataclass, field

from base.timers import earliest
from ssb.replication.blobs import BlobFetch, BlobSource
from ssb.replication.history import HistoryFetch, HistorySource
from ssb.transport.calls import Answered, CallEvent, Calls, Finished
from ssb.transport.secure_stream import Channel

_EVENT = 200  # about the bytes of an event without its content


@dataclass
class Connection:
    """A stream to another peer.

    Attributes:
        number: of the stream.
        host: of its other end.
        called: the peer that this one has called; None if this one was called.
        since: when it was opened, ns.
        greeted: when its handshake was complete, ns; 0 before.
        channel: its channel.
        calls: above the channel.
        heard: time of the last input, ns.
        is_answered: whether there was any.
        is_full: TCP accepts no more bytes for now.
        is_guest: the remote is here to use an invite, and nothing else.
        replication: the call of `ebt.replicate`; None if there is none.
        branches: the call of `branches`, of either side; None if there is none.
        has_tried_ebt: this peer has called it, or does not wait for it any more.
        sources: calls of form source that this side answers.
        asks_by_history: this peer requests feeds by `createHistoryStream`, as the other has no EBT.
        fetches: its calls of `createHistoryStream`.
        blob_fetches: its calls of `blobs.get`.
        wants_told: the remote's call of `blobs.createWants`.
        wants_heard: this peer's own.
        loose: calls of `ooo.stream`, of both sides.
        refuses_loose: the remote does not know that call.
        pings: the remote's calls of `gossip.ping`.
        useful: number of new messages received.
        is_apart: only the protocols of rooms are for it; None while that is not known.
        held: events of the remote's calls that wait for `is_apart`, by call, and the times of their arrival,
            ms since 1970.
        held_bytes: about the size of these.
        room: the room that carries it as a tunnel; "" if there is none.
    """

    number: int
    host: str
    called: str | None
    since: int
    channel: Channel
    calls: Calls
    heard: int
    is_answered: bool = False
    is_full: bool = False
    is_guest: bool = False
    greeted: int = 0
    replication: int | None = None
    branches: int | None = None
    has_tried_ebt: bool = False
    asks_by_history: bool = False
    sources: dict[int, HistorySource | BlobSource] = field(default_factory=dict)
    fetches: dict[int, HistoryFetch] = field(default_factory=dict)
    blob_fetches: dict[int, BlobFetch] = field(default_factory=dict)
    wants_told: int | None = None
    wants_heard: int | None = None
    loose: dict[int, None] = field(default_factory=dict)
    refuses_loose: bool = False
    pings: set[int] = field(default_factory=set)
    useful: int = 0
    is_apart: bool | None = False
    held: dict[int, list[tuple[CallEvent, float]]] = field(default_factory=dict)
    held_bytes: int = 0
    room: str = ""

    @property
    def remote(self) -> str:
        """The other peer's reference; "" before the handshake is complete."""
        return self.channel.remote or ""

    @property
    def patience_ends(self) -> int | None:
        """When the first fetch of a blob is given up, ns; None if there is none."""
        return earliest(*(fetch.deadline for fetch in self.blob_fetches.values()))

    def overdue(self, now: int) -> list[Finished]:
        """Return the ends of the fetches of blobs that are given up."""
        calls = [call for call, fetch in self.blob_fetches.items() if now >= fetch.deadline]
        return [Finished(call, "no more of the blob has come") for call in calls]

    @property
    def is_served(self) -> bool:
        """Whether it gets all services: it is no guest's, and not for the protocols of rooms alone."""
        return self.is_apart is False and not self.is_guest

    def hold(self, event: CallEvent, now_ms: float) -> None:
        """Keep an event of the remote's call until it is known whether that is for this connection."""
        self.held.setdefault(event.call, []).append((event, now_ms))
        size = len(event.body) if isinstance(event, Answered) else len(str(event))
        self.held_bytes += _EVENT + size

    @property
    def waits_for_ebt(self) -> bool:
        """Whether the other peer may still call `ebt.replicate`."""
        return self.replication is None and not self.has_tried_ebt and self.is_served

    def take_output(self) -> bytes:
        """Return the bytes to send."""
        if self.remote:
            self.channel.send(self.calls.take_output())
        return self.channel.take_output()
