"""NDN, declared. What decodes it are batch.py and ndn.py, at once for many packets, and reference.py."""

from analysis.decode.protocols.protocol import ITEM, NDN, Declaration

INTERESTS = frozenset(("interest", "lli"))
"""What asks for Data."""

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
