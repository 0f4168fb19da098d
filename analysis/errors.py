"""The exception for user errors, one-line summaries of Spark's exceptions, and installation commands."""

import errno
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

from base.plugins import PluginError
from captures.formats.pcapng import CaptureError

_TRACEBACK = "Traceback (most recent call last)"
_USER_FIXABLE = re.compile(
    r"\b(?:AnalysisError|UserError|CaptureError|OSError|FileNotFoundError|PermissionError): (.*)"
)
"""Exceptions in a traceback that the user can fix."""
_OF_JAVA = re.compile(r"^An error occurred while calling .*\n: (.+)")
_RAISED = re.compile(r"^[\w.]*(?:Error|Exception): (.+)$", re.MULTILINE)


_FULL = os.strerror(errno.ENOSPC)
_FEW = 40
"""Letters kept at either end of a name too long for the file system."""


class AnalysisError(ValueError):
    """A run that cannot be analysed. The message is one line: what, where, and the remedy."""


def reason(error: Exception) -> str:
    """Return the most informative line of an error.

    A Spark task's exception arrives as text between Spark's own words and a traceback: the last line that
    names an exception counts, with user-fixable ones first.
    """
    text = str(error)
    said: list[str] = _USER_FIXABLE.findall(text)
    if not said and _TRACEBACK in text:
        said = _RAISED.findall(text)
    if not said:
        said = _OF_JAVA.findall(text)
    if not said:
        said = [line for line in text.splitlines() if line.strip()][:1]
    return said[-1].strip() if said else type(error).__name__


def system_reason(error: OSError) -> str:
    """Return a system error and its path, in one line."""
    why = error.strerror or str(error)
    if error.errno and os.strerror(error.errno) in why:  # Arrow's messages are more detailed
        why = os.strerror(error.errno)
    if error.filename is None:
        return why
    place = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)
    if error.errno == errno.ENAMETOOLONG:
        place = f"{place[:_FEW]}...{place[-_FEW:]}"
    return f"{place}: {why}"


def install_command(extra: str) -> str:
    """Return the command that installs an extra of feednet into this Python's environment.

    It lists the packages: feednet itself may have been installed from a path that pip cannot resolve by name.
    So extras that the extra includes are left out; what lacks them names them itself.
    """
    wanted = []
    for requirement in metadata.requires("feednet") or ():
        what, _, marker = requirement.partition(";")
        if re.search(rf"extra == ['\"]{re.escape(extra)}['\"]", marker) and not what.startswith("feednet["):
            wanted.append(what.strip())
    if not any(metadata.distributions(name="pip")) and shutil.which("uv"):
        return shlex.join(["uv", "pip", "install", "--python", sys.executable, *wanted])
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Convert errors of captures, the system, Spark and its tasks to AnalysisError."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException  # slow to import, unneeded for reporting

    try:
        yield
    except (CaptureError, PluginError) as error:
        raise AnalysisError(str(error)) from error
    except OSError as error:
        raise AnalysisError(system_reason(error)) from error
    except (PySparkException, Py4JError) as error:
        if _FULL in str(error):
            raise AnalysisError(
                f"{_FULL}: free some where the tables go, or where Spark works (SPARK_LOCAL_DIRS, else /tmp)"
            ) from error
        whose = "" if _USER_FIXABLE.search(str(error)) else "Spark has failed: "
        raise AnalysisError(whose + reason(error)) from error
