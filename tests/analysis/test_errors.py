"""The line of an error that says what it is about."""

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from analysis.errors import AnalysisError, one_line_errors, reason

TRACEBACK = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "reading.py", line 7, in read
    raise {raised}
{said}

\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:1)
Caused by: java.io.IOException: other words
"""


def of_task(said):
    return PySparkException(TRACEBACK.format(raised=said.partition(":")[0], said=said))


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("captures.formats.pcapng.CaptureError: c.pcap: byte 7: cut", "c.pcap: byte 7: cut"),
        ("testbed.errors.UserError: a: no such node", "a: no such node"),
        ("PermissionError: [Errno 13] Permission denied: 'c'", "[Errno 13] Permission denied: 'c'"),
        ("ZeroDivisionError: division by zero", "division by zero"),
        ("OSError: c: gone\nDuring handling:\ntestbed.errors.UserError: c is gone", "c is gone"),
        ("OSError: c: gone\nDuring handling:\nValueError: no number", "c: gone"),
    ],
)
def test_a_tasks_exception_is_found_in_its_text(said, line):
    assert reason(of_task(said)) == line


def test_without_a_traceback_the_first_line_counts():
    assert reason(PySparkException("\n  [CANNOT_DO] It cannot.\nSomeError: not this\n")) == (
        "[CANNOT_DO] It cannot."
    )
    assert reason(ValueError()) == "ValueError"
    java = "An error occurred while calling o7.parquet.\n: java.io.IOException: No space left\n\tat java.base"
    assert reason(Py4JError(java)) == "java.io.IOException: No space left"


def test_whatever_fails_becomes_one_line():
    with pytest.raises(AnalysisError, match=r"^c\.pcap: byte 7: cut$"), one_line_errors():
        raise of_task("captures.formats.pcapng.CaptureError: c.pcap: byte 7: cut")
    with pytest.raises(AnalysisError, match=r"^Spark has failed: division by zero$"), one_line_errors():
        raise of_task("ZeroDivisionError: division by zero")
    with (
        pytest.raises(AnalysisError, match=r"^Spark has failed: Answer from Java side is empty$"),
        one_line_errors(),
    ):
        raise Py4JError("Answer from Java side is empty")
