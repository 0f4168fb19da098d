"""Ports and options of a peer."""

from typing import Final, NamedTuple

from base.units import SECOND
from ssb.peer.scheduler import SchedulerOptions
from ssb.replication.session import DEFAULT_LIMITS, Limits
from ssb.transport.handshake import MAIN_NETWORK

PORT: Final = 8008
"""TCP port of peers, and UDP port of their announcements in a local network (npm's ssb-lan)."""
BROADCAST: Final = "255.255.255.255"
"""Destination address of announcements."""


class PeerOptions(NamedTuple):
    """Options of a peer.

    Attributes:
        network: key of the network, 32 bytes.
        encrypts: whether streams are encrypted, as those of all deployed peers are.
        handshake: timeout of a handshake, ns.
        idle: a connection is closed after receiving nothing for this time, ns.
        without_ebt: the wait for the other peer's `ebt.replicate` before requesting feeds by
            `createHistoryStream`, and for its answer whether it is a room, ns.
        connections: maximum number of authenticated connections; see InboundLimits.
        handshakes: maximum number of concurrent inbound handshakes.
        announce: interval of announcements, ns.
        calls_loopback: call pubs whose address is this machine's own.
        scheduler: see SchedulerOptions.
        replication: see Limits.
        blob_storage_limit: bytes of all blobs, see StorageLimit; None for no limit.
    """

    network: bytes = MAIN_NETWORK
    encrypts: bool = True
    handshake: int = 5 * SECOND
    idle: int = 600 * SECOND
    without_ebt: int = 3 * SECOND
    connections: int = 200
    handshakes: int = 200
    announce: int = 1 * SECOND
    calls_loopback: bool = False
    scheduler: SchedulerOptions = SchedulerOptions()
    replication: Limits = DEFAULT_LIMITS
    blob_storage_limit: int | None = None
