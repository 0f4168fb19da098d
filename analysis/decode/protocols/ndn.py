"""Declaration of NDN. batch.py, ndn.py (vectorised) and reference.py decode it."""

from analysis.decode.protocols.protocol import ITEM, NDN, Declaration

INTERESTS = frozenset(("interest", "lli"))
"""Kinds that request Data."""

DECLARATION = Declaration(
    NDN,
    kinds={
        "interest": "Interest",
        "lli": "LLI",
        "nack": "Nack",
        "idle": "FeedState or acknowledgement",
        "hello": "Hello",
        ITEM: "Data",
    },
    control=INTERESTS | {"nack", "idle", "hello"},
)
