"""Files and names that a power cut cannot take back."""

import os
from collections.abc import Callable
from pathlib import Path


def create(path: Path, content: Callable[[int], bytes]) -> None:
    """Make a file for its owner's eyes only, whole or not at all; `content` is told the open file.

    Raises OSError.
    """
    partial = path.with_name(f".{path.name}.new")
    partial.unlink(missing_ok=True)
    try:
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as out:
            out.write(content(file))
            out.flush()
            os.fsync(file)
        partial.rename(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    directory = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
