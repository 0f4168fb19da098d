"""Column values and table sizes that metrics and pages share."""

from analysis.decode.messages import RETRANSMITTED
from analysis.decode.protocols.protocol import ENCRYPTED, PAYLOAD, UNREAD
from analysis.decode.protocols.registry import framed, in_datagrams

ALL = "*"
"""The pseudo-node for all nodes, or all subscribers, together."""

_BELOW = ("ethernet", "ip", "udp", "tcp", RETRANSMITTED, "ndnlp", "interest", "data header")
_ABOVE = (ENCRYPTED, UNREAD, PAYLOAD, "other")


def layer_name(protocol: str, key: str) -> str:
    """Return the name of a protocol's own layer among all layers."""
    return f"{protocol} {key}"


def layers() -> tuple[str, ...]:
    """Return the layers of overhead, from the wire up.

    udp, tcp: headers; retransmitted: repeated TCP bytes; interest: Interests, LLIs and Nacks; data header: a
    Data packet without the application's message; then the layers that protocols declare; encrypted, unread:
    bytes of a known protocol that could not be decrypted or parsed; payload: the messages; other: frames of
    unknown protocols, and TCP bytes in no other layer. Later fragments of a packet count as Data, since an
    Interest fits a frame. Each kind of tinySSB packet is a layer of its own.
    """
    own = (layer_name(each.name, layer.key) for each in (*framed(), *in_datagrams()) for layer in each.layers)
    return (*_BELOW, *own, *_ABOVE)


OUTCOMES = ("satisfied", "nacked", "expired", "cancelled", "forked", "lost", "open")
"""Outcomes in analysis.tables.schema.PIT_INTERVALS, in display order."""

HELD = ("entries", "bytes")
"""State of PITs that pages show; pages of captures also show `ranges` and `credit`."""

SLICES = 120
"""Time slices of a run in plots over time."""

MOST_FRAMES = 80
"""Frames per name in its sequence chart."""

MESSAGES, REPEATED, REST = "messages", "repeated", "rest"
"""Causes of a peer's bytes: a new item, an item that the peer already has, and TCP overhead (handshakes,
acknowledgements, retransmissions). All other causes are kinds of messages
(analysis.decode.protocols.protocol.Declaration.kinds).
"""

MODES = ("eager", "lazy")
"""Modes of a feed on a connection of EBT."""
