"""Helper processes: how they start, are spoken to, and end."""

import sys

import pytest

from topologies.mininet import child
from topologies.mininet.child import Child, ChildError

ECHO = """
import json, sys
print("ready", flush=True)
print(json.dumps({"said": sys.stdin.read()}))
"""


def started(program: str) -> Child:
    return Child("the helper", [sys.executable, "-c", program]).wait()


def test_what_it_is_told_is_in_its_report() -> None:
    helper = started(ECHO)
    helper.send("3 down")
    assert helper.finish() == {"said": "3 down\n"}


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.exit('one\\nno such thing')", "the helper did not start: no such thing"),
        ("print('hello')", "the helper did not start: no output"),
    ],
)
def test_one_that_does_not_start(program: str, message: str) -> None:
    with pytest.raises(ChildError) as error:
        started(program)
    assert str(error.value) == message


def test_one_that_says_nothing_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_START_S", 0.1)
    with pytest.raises(ChildError, match="the helper did not start: no output for 0 s"):
        started("import time; time.sleep(60)")


def test_one_that_fails_during_its_work() -> None:
    helper = started("print('ready', flush=True); input(); raise SystemExit('broken')")
    helper.send("go")
    with pytest.raises(ChildError, match="the helper failed during the run: broken"):
        helper.finish()


def test_one_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_END_S", 0.1)
    helper = started("import time; print('ready', flush=True); time.sleep(60)")
    with pytest.raises(ChildError, match="the helper did not end within 0 s"):
        helper.finish()


def test_one_that_is_gone_cannot_be_told() -> None:
    helper = started(ECHO)
    helper.kill()
    with pytest.raises(ChildError, match="the helper has ended: Broken pipe"):
        helper.send("x")
