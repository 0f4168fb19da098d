"""Atomic directories with a single writer; rows of tables."""

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.errors import AnalysisError, system_reason
from base.files import OF_WRITING, named

if TYPE_CHECKING:
    import pyarrow as pa

Rows = list[dict[str, Any]]
"""Rows of a small table, by column."""

_LOCK = ".lock"
_OLD = ".old"
_REMOVALS = 40
_BETWEEN_REMOVALS_S = 0.05


def read_rows(path: Path, **options: Any) -> "pa.Table":
    """Read a Parquet table with options of pyarrow.parquet.read_table; raise AnalysisError if damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq  # slow to import, unneeded for text output

    try:
        return pq.read_table(path, **options)
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be read: {system_reason(error)}") from error
    except pa.ArrowException as error:
        why = str(error).splitlines()[0]
        raise AnalysisError(f"{path}: damaged: {why}: analyse the run again (feednet report)") from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file of JSON lines; raise AnalysisError for a line that is none."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield json.loads(line)
            except ValueError:
                raise AnalysisError(f"{path}:{number}: no JSON: run it again") from None


def partial_of(path: Path) -> Path:
    """Return the temporary path of a directory under construction. Raises IsADirectoryError for the root."""
    path = named(path)
    return path.with_name(path.name + ".partial")


@contextmanager
def whole_directory(
    path: Path, *, replace: bool = False, keep: tuple[type[BaseException], ...] = ()
) -> Iterator[Path]:
    """Yield an empty directory to fill; it is renamed to `path` if the block succeeds, else removed.

    An existing directory stays until then; unless `replace`, it must be empty. After an exception in `keep`,
    the partial result remains as partial_of(path). Raises OSError, also if another process is writing the
    same directory.
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
            _move_into_place(partial, path)
        except keep:
            raise
        except BaseException as error:
            _remove(partial)
            if (
                isinstance(error, OSError)
                and error.errno in OF_WRITING
                and _is_within(error.filename, partial)
            ):
                error.filename = str(path)  # report the user's path
            raise


def _remove(directory: Path) -> None:
    """Remove a directory. Threads of an engine that has been stopped may write to it for a moment."""
    for _ in range(_REMOVALS):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(_BETWEEN_REMOVALS_S)


def _is_within(name: Any, directory: Path) -> bool:
    """Return whether an error's file is in a directory; Python names no file in errors of writing."""
    return name is None or directory in Path(os.fsdecode(name)).parents


@contextmanager
def _parents(path: Path) -> Iterator[None]:
    """Create missing parents of a path; remove those still empty if the block fails."""
    lacking = [each for each in path.parents if not each.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):  # not empty
            for each in lacking:
                each.rmdir()
        raise


def _move_into_place(partial: Path, path: Path) -> None:
    if not path.is_dir():
        partial.rename(path)
    elif any(path.iterdir()):
        path.rename(partial / _OLD)
        partial.rename(path)
        shutil.rmtree(path / _OLD, ignore_errors=True)
    else:  # it may be a user's working directory
        for each in partial.iterdir():
            each.rename(path / each.name)
        partial.rmdir()
    (path / _LOCK).unlink()


@contextmanager
def locked(directory: Path, name: Path | None = None) -> Iterator[None]:
    """Create a directory if missing, and hold its lock until the block ends.

    Raises OSError; if another process holds the lock, one about `name`. The lock is on a file inside the
    directory: it moves with it, and the kernel releases it when this process dies.
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
        except FileNotFoundError:  # just moved
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
        os.close(file)  # moved or removed by its previous owner


def _is_at(file: int, path: Path) -> bool:
    return os.path.samestat(os.fstat(file), os.stat(path))
