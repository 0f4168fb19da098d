"""One connection of a peer: a channel, the calls on it, and what they are for."""

from dataclasses import dataclass, field

from ssb.replication.history import HistorySource
from ssb.transport.calls import Calls
from ssb.transport.secure_stream import Channel

ROOM = 1 << 16
"""Bytes that are put out at once on a connection: as much as keeps TCP busy, and little to wait for."""


@dataclass
class Connection:
    """A stream to another peer.

    Attributes:
        number: of the stream.
        called: the peer that this one has called; None if this one was called.
        since: when it was opened, or asked for, ns.
        heard: when bytes came last, ns.
        channel: what is on it.
        calls: above the channel.
        is_full: TCP takes no more bytes for now.
        replication: the call of `ebt.replicate`; None if there is none.
        has_tried_ebt: this peer has called it, or waits for it no more.
        sources: calls of `createHistoryStream` that this side answers.
        fetches: those that it has made, each with its feed.
        pings: calls of `gossip.ping`.
        useful: messages that were new.
    """

    number: int
    called: str | None
    since: int
    channel: Channel
    calls: Calls
    heard: int
    is_full: bool = False
    replication: int | None = None
    has_tried_ebt: bool = False
    sources: dict[int, HistorySource] = field(default_factory=dict)
    fetches: dict[int, str] = field(default_factory=dict)
    pings: set[int] = field(default_factory=set)
    useful: int = 0

    @property
    def remote(self) -> str | None:
        """The other peer's reference; None before the handshake is done."""
        return self.channel.remote

    def take_output(self) -> bytes:
        """Return the bytes that are to be sent now."""
        if self.channel.remote is not None:
            self.channel.send(self.calls.take_output())
        return self.channel.take_output()
