"""Values of columns, and sizes of tables, that metrics and pages share."""

ALL = "*"
"""The node that stands for all nodes together, or for all subscribers."""

LAYERS = ("ethernet", "ip", "udp", "ndnlp", "interest", "data header", "payload", "other")
"""From the wire up. interest: Interests, LLIs and Nacks; data header: all of a Data packet but the
application's message; payload: that message; other: whole frames that are not readable NDN. A packet's
later fragments count as Data, since an Interest fits a frame."""

OUTCOMES = ("satisfied", "nacked", "expired", "cancelled", "forked", "lost", "open")
"""Outcomes of analysis.tables.schema.PIT_INTERVALS, in the order in which they are shown."""

HELD = ("entries", "bytes")
"""What pages show of PITs; of captures, also `ranges` and `credit`."""

SLICES = 120
"""Parts of a run of which each has a count or a mean, in what is drawn over time."""

MOST_FRAMES = 80
"""Frames of a name that its sequence chart is made from."""
