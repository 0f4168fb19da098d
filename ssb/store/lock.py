"""A lock for one writing process."""

import fcntl
import os
from pathlib import Path

from ssb.store.feeds import StoreError


class WriteLock:
    """An advisory lock on a file of its own, held until `close` or the end of the process.

    The file is never deleted: that could delete the file of the next holder.

    Args:
        path: the file, created if missing.
        what: the name of the protected file, for the error.

    Raises StoreError if another process holds it, or if the file cannot be created.
    """

    def __init__(self, path: Path, what: Path) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"{what}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            is_held = isinstance(error, BlockingIOError)
            reason = "another program writes to it; stop that one first" if is_held else error.strerror
            raise StoreError(f"{what}: {reason}") from None

    def close(self) -> None:
        """Release the lock."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
