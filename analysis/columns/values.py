"""Values of columns, and sizes of tables, that metrics and pages share."""

from analysis.decode.messages import RETRANSMITTED
from analysis.decode.protocols.protocol import ENCRYPTED, PAYLOAD, UNREAD
from analysis.decode.protocols.registry import framed, in_datagrams

ALL = "*"
"""The node that stands for all nodes together, or for all subscribers."""

_BELOW = ("ethernet", "ip", "udp", "tcp", RETRANSMITTED, "ndnlp", "interest", "data header")
_ABOVE = (ENCRYPTED, UNREAD, PAYLOAD, "other")


def layer_name(protocol: str, key: str) -> str:
    """Return what one of a protocol's own layers is called among all."""
    return f"{protocol} {key}"


def layers() -> tuple[str, ...]:
    """Return the layers of overhead, from the wire up.

    udp, tcp: their headers; retransmitted: what TCP has sent before; interest: Interests, LLIs and Nacks;
    data header: all of a Data packet but the application's message; then the layers that protocols declare;
    encrypted, unread: bytes of a known protocol that could not be decrypted, or not be read; payload: the
    messages; other: whole frames of no known protocol, and of TCP what is not in any other layer. A packet's
    later fragments count as Data, since an Interest fits a frame. Packets of tinySSB have a layer for each
    kind, which is all that UDP carries of them.
    """
    own = (layer_name(each.name, layer.key) for each in (*framed(), *in_datagrams()) for layer in each.layers)
    return (*_BELOW, *own, *_ABOVE)


OUTCOMES = ("satisfied", "nacked", "expired", "cancelled", "forked", "lost", "open")
"""Outcomes of analysis.tables.schema.PIT_INTERVALS, in the order in which they are shown."""

HELD = ("entries", "bytes")
"""What pages show of PITs; of captures, also `ranges` and `credit`."""

SLICES = 120
"""Parts of a run of which each has a count or a mean, in what is drawn over time."""

MOST_FRAMES = 80
"""Frames of a name that its sequence chart is made from."""

MESSAGES, REPEATED, REST = "messages", "repeated", "rest"
"""Causes of a peer's bytes: an item for a peer that lacks it, one for a peer that has it, and what is no
message: TCP's connections and acknowledgements, and what TCP sends again. The others are kinds of messages
(analysis.decode.protocols.protocol.Declaration.kinds)."""
