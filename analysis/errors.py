"""The one exception that a user of the analysis can cause, and what Spark's say in one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from captures.pcapng import CaptureError

_TRACEBACK = "Traceback (most recent call last)"
_MENDABLE = re.compile(
    r"\b(?:AnalysisError|UserError|CaptureError|OSError|FileNotFoundError|PermissionError): (.*)"
)
"""What the user can do something about, among all that a traceback tells."""
_RAISED = re.compile(r"^[\w.]*(?:Error|Exception): (.+)$", re.MULTILINE)


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
        said = [line for line in text.splitlines() if line.strip()][:1]
    return said[-1].strip() if said else type(error).__name__


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what a capture or, in Spark, a task complains of to the user into an AnalysisError."""
    from pyspark.errors import PySparkException  # who only reports an error need not wait for it

    try:
        yield
    except CaptureError as error:
        raise AnalysisError(str(error)) from error
    except PySparkException as error:
        if not _MENDABLE.search(str(error)):
            raise
        raise AnalysisError(reason(error)) from error
