"""Atomic writes of files."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

OF_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of writing, where Python gives no file name."""


def memory_directory() -> str | None:
    """Return a directory in memory, if available, for thousands of small files: `dir` of `tempfile`."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def named(path: Path) -> Path:
    """Return a path that ends with a name, as the base of a neighbour's name: ".", ".." and "" are resolved
    to their directory. Raises IsADirectoryError for the root, which has none.
    """
    if path.name in ("", ".."):
        path = path.resolve()
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return path


@contextmanager
def whole_file(
    path: Path, *, mode: int = 0o666, is_durable: bool = False, is_sole: bool = False, is_new: bool = False
) -> Iterator[Path]:
    """Yield the path of an empty file, which gets the name `path` if the block succeeds, else is removed.

    An old file stays until then. Errors of writing name `path`. Raises OSError.

    Args:
        path: of the file.
        mode: permissions of the file, reduced by the umask.
        is_durable: whether content and name survive a power cut after the block.
        is_sole: whether only this process writes the file, as under a lock. Remains of a killed process are
            overwritten then; otherwise they stay beside the file.
        is_new: whether an old file is an error, FileExistsError, and not replaced.
    """
    path = named(path)
    new = path.with_name(f".{path.name}.{'new' if is_sole else token_hex(4)}")
    try:
        if is_sole:
            new.unlink(missing_ok=True)
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
        yield new
        if is_durable:
            sync(new)
        if is_new:
            os.link(new, path)
            new.unlink()
        else:
            new.replace(path)
    except BaseException as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        if isinstance(error, OSError) and (error.errno in OF_WRITING or error.filename == str(new)):
            error.filename, error.filename2 = str(path), None
        raise
    if is_durable:
        sync(path.parent)


def write_whole(
    path: Path,
    content: str | bytes,
    *,
    mode: int = 0o666,
    is_durable: bool = False,
    is_sole: bool = False,
    is_new: bool = False,
) -> None:
    """Write a file of bytes, or of text in UTF-8, as whole_file() does. Raises OSError."""
    with whole_file(path, mode=mode, is_durable=is_durable, is_sole=is_sole, is_new=is_new) as new:
        new.write_bytes(content.encode() if isinstance(content, str) else content)


def sync(path: Path) -> None:
    """Make the content of a file durable, or the names in a directory, where its file system supports that.

    Raises OSError.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(file)
