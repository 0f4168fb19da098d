"""The one exception that a user of the analysis can cause, what Spark's say in one line, and the command that
installs what is missing."""

import errno
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

from captures.formats.pcapng import CaptureError

_TRACEBACK = "Traceback (most recent call last)"
_MENDABLE = re.compile(
    r"\b(?:AnalysisError|UserError|CaptureError|OSError|FileNotFoundError|PermissionError): (.*)"
)
"""What the user can do something about, among all that a traceback tells."""
_OF_JAVA = re.compile(r"^An error occurred while calling .*\n: (.+)")
_RAISED = re.compile(r"^[\w.]*(?:Error|Exception): (.+)$", re.MULTILINE)


_FULL = os.strerror(errno.ENOSPC)
_FEW = 40
"""Letters of a name at either end, if it is longer than a file system takes."""


class AnalysisError(ValueError):
    """A run that cannot be analysed. The message is one line: what, where, and how to mend it."""


def reason(error: Exception) -> str:
    """Return the line of an error that says what it is about.

    The exception of a Spark task arrives as its text, between Spark's own words and a traceback: the last
    line counts that names an exception, one that the user can mend before any other.
    """
    text = str(error)
    said: list[str] = _MENDABLE.findall(text)
    if not said and _TRACEBACK in text:
        said = _RAISED.findall(text)
    if not said:
        said = _OF_JAVA.findall(text)
    if not said:
        said = [line for line in text.splitlines() if line.strip()][:1]
    return said[-1].strip() if said else type(error).__name__


def of_system(error: OSError) -> str:
    """Return what the system has refused, and where, in one line."""
    why = error.strerror or str(error)
    if error.errno and os.strerror(error.errno) in why:  # Arrow says more
        why = os.strerror(error.errno)
    if error.filename is None:
        return why
    place = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)
    if error.errno == errno.ENAMETOOLONG:
        place = f"{place[:_FEW]}...{place[-_FEW:]}"
    return f"{place}: {why}"


def install_command(extra: str) -> str:
    """Return the command that installs what an extra of feednet's needs, into the environment of this Python.

    It names the packages: feednet itself may have come from a directory or a file that pip would not find
    again by its name.
    """
    wanted = []
    for requirement in metadata.requires("feednet") or ():
        what, _, marker = requirement.partition(";")
        if re.search(rf"extra == ['\"]{re.escape(extra)}['\"]", marker):
            wanted.append(what.strip())
    if not any(metadata.distributions(name="pip")) and shutil.which("uv"):
        return shlex.join(["uv", "pip", "install", "--python", sys.executable, *wanted])
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what a capture, the system, Spark or a task of Spark complains of into an AnalysisError."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException  # who only reports an error need not wait for it

    try:
        yield
    except CaptureError as error:
        raise AnalysisError(str(error)) from error
    except OSError as error:
        raise AnalysisError(of_system(error)) from error
    except (PySparkException, Py4JError) as error:
        if _FULL in str(error):
            raise AnalysisError(
                f"{_FULL}: free some where the tables go, or where Spark works (SPARK_LOCAL_DIRS, else /tmp)"
            ) from error
        whose = "" if _MENDABLE.search(str(error)) else "Spark has failed: "
        raise AnalysisError(whose + reason(error)) from error
