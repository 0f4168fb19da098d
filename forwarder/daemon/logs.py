"""Logs of a program that runs for long: lines with levels, by `logging`, to standard error and to a file.

A log never stops the program: no error of a disk or a terminal leaves these handlers.
"""

import logging
import sys
from contextlib import suppress
from logging.handlers import WatchedFileHandler
from pathlib import Path

_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class LogFile(WatchedFileHandler):
    """A file that may be moved away at any time: the next line begins a new one.

    While lines cannot be written they are lost; standard error has one line about that, not one for each.

    Args:
        path: where it is; it must be possible to open it.

    Raises OSError.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")
        self._is_failing = False
        self._has_failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self._has_failed = False
        try:
            super().emit(record)
        except OSError:  # a new file cannot be begun
            self.handleError(record)
        self._is_failing = self._has_failed

    def close(self) -> None:
        """Close the file. Lines that still cannot be written are lost."""
        with suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Count a line that is lost."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._has_failed = True
        if not self._is_failing:
            with suppress(OSError):
                print(f"feednet: {self.baseFilename}: {error.strerror}; log lines are lost", file=sys.stderr)


def set_up(level: str, file: LogFile | None = None) -> None:
    """Log records of a level, such as "info", and above to standard error and to a file.

    A later call replaces the settings of an earlier one.
    """
    root = logging.getLogger()
    if not any(type(each) is logging.StreamHandler for each in root.handlers):
        root.addHandler(logging.StreamHandler())
    for old in [each for each in root.handlers if isinstance(each, LogFile)]:
        root.removeHandler(old)
        old.close()
    if file is not None:
        root.addHandler(file)
    for handler in root.handlers:
        handler.setFormatter(logging.Formatter(_FORMAT))
    root.setLevel(level.upper())
