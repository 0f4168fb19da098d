"""Durable state of a contract (`ssb.tiny.isp.contract`), a record in the store."""

from dataclasses import dataclass, field

ASKED, ACCEPTED, OPEN, FAREWELL, OVER = "asked", "accepted", "open", "farewell", "over"
"""States: requested; both control feeds known; data flow; no new data; all read."""


@dataclass
class Facts:
    """Durable state of a contract.

    Attributes:
        client, isp: root feeds.
        state: see the constants.
        own_control, other_control: feeds; the other's is None until it is known.
        own_line: own data feeds not read to their end, oldest first; the last one is written.
        other_data: the data feed being read; None before the first and after the last one.
        other_previous: the data feed before it.
        epoch: feeds replaced in the set of data feeds.
        began: when the state became OPEN, ns.
        init_said, init_heard, ack_heard, line_ended, fin_said, fin_heard: of the farewell: sent and received.
        control_at_hop: entries read of the other's control feed at the last hop for its sake.
        hop_fin: number of the last entry of the own control feed with a `fin`.
        is_broken: the other side has violated the protocol; its line is read no further.
    """

    client: bytes
    isp: bytes
    state: str
    own_control: bytes
    other_control: bytes | None = None
    own_line: list[bytes] = field(default_factory=list)
    other_data: bytes | None = None
    other_previous: bytes | None = None
    epoch: int = 0
    began: int = 0
    init_said: bool = False
    init_heard: bool = False
    ack_heard: bool = False
    line_ended: bool = False
    fin_said: bool = False
    fin_heard: bool = False
    control_at_hop: int = 0
    hop_fin: int = 0
    is_broken: bool = False


def root_set(other: bytes) -> str:
    """Return the name of the set of the own root feed and that of another."""
    return f"root{other.hex()}"


def record_of(id: bytes) -> str:  # noqa: A002 - its name
    """Return the name of a contract's record."""
    return f"contract {id.hex()}"
