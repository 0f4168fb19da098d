"""Units of time, in ns: all times of feednet are whole numbers of nanoseconds."""

from typing import Final

US: Final = 1_000
MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

NEVER: Final = (1 << 63) - 1
"""A time after all others: later than any deadline."""
