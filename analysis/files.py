"""Directories that are there whole or not at all, and that one process at a time writes; rows of tables."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.errors import AnalysisError, of_system
from base.files import OF_WRITING, named

if TYPE_CHECKING:
    import pyarrow as pa

Rows = list[dict[str, Any]]
"""Rows of a small table, by column."""

_LOCK = ".lock"
_OLD = ".old"


def read_rows(path: Path, **options: Any) -> "pa.Table":
    """Read a table of Parquet with options of pyarrow.parquet.read_table; raise AnalysisError if it is
    damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq  # who only writes text need not wait for them

    try:
        return pq.read_table(path, **options)
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be read: {of_system(error)}") from error
    except pa.ArrowException as error:
        why = str(error).splitlines()[0]
        raise AnalysisError(f"{path}: damaged: {why}: analyse the run again (feednet report)") from error


def partial_of(path: Path) -> Path:
    """Return where a directory is made. Raises IsADirectoryError for the root."""
    path = named(path)
    return path.with_name(path.name + ".partial")


@contextmanager
def whole_directory(
    path: Path, *, replace: bool = False, keep: tuple[type[BaseException], ...] = ()
) -> Iterator[Path]:
    """Yield an empty directory to fill, which gets the name `path` if the block succeeds, else is removed.

    A directory that is there already stays until then; unless it is to be replaced it must be empty. An
    exception in `keep` leaves what there is, as partial_of(path). Raises OSError, also if another process is
    making the same directory.
    """
    partial = partial_of(path)
    with _parents(partial), locked(partial, path):
        try:
            for each in partial.iterdir():
                if each.name != _LOCK:
                    shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
            if not replace and os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
                raise FileExistsError(errno.EEXIST, "exists already", str(path))
            yield partial
            _give_place(partial, path)
        except keep:
            raise
        except BaseException as error:
            shutil.rmtree(partial, ignore_errors=True)
            if (
                isinstance(error, OSError)
                and error.errno in OF_WRITING
                and _is_within(error.filename, partial)
            ):
                error.filename = str(path)  # whose name the user knows
            raise


def _is_within(name: Any, directory: Path) -> bool:
    """Tell whether a file that an error names is in a directory; Python names none that it writes to."""
    return name is None or directory in Path(os.fsdecode(name)).parents


@contextmanager
def _parents(path: Path) -> Iterator[None]:
    """Make the directories that a path lacks, and remove those that are still empty if the block fails."""
    lacking = [each for each in path.parents if not each.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):  # not empty
            for each in lacking:
                each.rmdir()
        raise


def _give_place(partial: Path, path: Path) -> None:
    if not path.is_dir():
        partial.rename(path)
    elif any(path.iterdir()):
        path.rename(partial / _OLD)
        partial.rename(path)
        shutil.rmtree(path / _OLD, ignore_errors=True)
    else:  # the user may be in it
        for each in partial.iterdir():
            each.rename(path / each.name)
        partial.rmdir()
    (path / _LOCK).unlink()


@contextmanager
def locked(directory: Path, name: Path | None = None) -> Iterator[None]:
    """Make a directory, if need be, that no other process may lock until the block ends.

    Raises OSError; if another process has it, one that says so of `name`. The lock is that of a file in it,
    which moves with it, and which the kernel gives free if this process is killed.
    """
    file = _locked(directory, name or directory)
    try:
        yield
    finally:
        with suppress(OSError):
            if _is_at(file, directory / _LOCK):
                (directory / _LOCK).unlink()
        os.close(file)


def _locked(directory: Path, name: Path) -> int:
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            file = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # it has just been moved
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise BlockingIOError(
                errno.EWOULDBLOCK, "another feednet is writing it: wait for it to end", str(name)
            ) from None
        except OSError:
            pass  # a file system without locks
        with suppress(OSError):
            if _is_at(file, directory / _LOCK):
                return file
        os.close(file)  # it was another's, who has moved or removed it since


def _is_at(file: int, path: Path) -> bool:
    return os.path.samestat(os.fstat(file), os.stat(path))
