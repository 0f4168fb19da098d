"""The layering `sparse`: a part of a log, verified by skip links."""

from collections.abc import Callable

from pydantic import Field

from ssb.keys import Identity
from ssb.message import Message
from ssb_over_ndn.layerings.sparse import Sparse
from ssb_over_ndn.linked import LinkedWriter
from ssb_over_ndn.naming import log_name
from testbed.layerings.kinds.ndn import PullParameters
from testbed.layerings.nodes.ndn_node import NdnLayering
from testbed.layerings.nodes.titles import title


class SparseParameters(PullParameters):
    """Parameters of `sparse`."""

    newest: int = Field(default=16, ge=1, le=65536)
    """Items up to the newest one that a reader begins with; no more than `buffer`."""
    item: int = Field(default=0, ge=0)
    """The number of one earlier item that it reads, too; 0 for none."""


def linked_packets(identity: Identity) -> Callable[[Message], bytes]:
    """Return what makes linked items of an author's messages, one after the other."""
    writer = LinkedWriter(log_name(identity.ref), identity.sign)
    return lambda message: writer.packet(message.sequence, message.encoded)


SPARSE_LAYERING = NdnLayering(
    title("sparse"),
    SparseParameters,
    Sparse,
    packets=linked_packets,
)
