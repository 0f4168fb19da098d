"""Common parts of the bench's programs: running them, and measuring in a process of its own."""

import ctypes
import importlib
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from forwarder.forwarder import Forwarder
from testbed.bench.figures import Line, Row, table
from testbed.bench.load import BenchError
from testbed.cli import interrupts
from testbed.cli.usage import HELP

_PIPED_WIDTH = 150


def command(function: Callable[..., None]) -> click.Command:
    """Make the command of a bench, with the option --json."""
    option = click.option("--json", "as_json", is_flag=True, help="For programs.")
    return click.command(context_settings=HELP)(option(function))


def run(bench: click.Command, module: str) -> None:
    """Run the command of a module; obstacles to measuring are one line and exit status 1."""
    try:
        bench.main(prog_name=f"python -m {module}", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (BenchError, OSError) as error:
        click.echo(f"feednet: {error}", err=True)
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        click.echo("feednet: interrupted", err=True)
        interrupts.leave()


def report(title: str, rows: Sequence[Row | Line], as_json: bool, caption: str = "", **facts: Any) -> None:
    """Print rows below the measured code and machine; `facts` are for programs only."""
    about = {
        "feednet": version("feednet"),
        "compiled": is_compiled(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    if as_json:
        click.echo(json.dumps({**about, **facts, "rows": [row.as_json() for row in rows]}))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    kind = "compiled" if about["compiled"] else "plain"
    console.print(f"feednet {about['feednet']}, {kind} Python {about['python']}, {about['system']}")
    if title:
        console.print(title)
    console.print(table(rows, caption))


def fresh(module: str, *arguments: int | str, patience_s: int = 300) -> Any:
    """Return measure() of a module from a process without freed memory to reuse; raise BenchError."""
    words = [sys.executable, "-m", __spec__.name, module, json.dumps(arguments)]
    try:
        done = subprocess.run(words, capture_output=True, check=True, text=True, timeout=patience_s)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        ended = f"signal {-error.returncode}" if error.returncode < 0 else f"exit status {error.returncode}"
        raise BenchError(lines[-1] if lines else f"the process ended with {ended}") from error
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"it took longer than {patience_s} s") from error
    return json.loads(done.stdout)


def timed(action: Callable[[], object]) -> float:
    """Return an action's processor time, s."""
    begun = time.process_time_ns()
    action()
    return (time.process_time_ns() - begun) / 1e9


def is_compiled() -> bool:
    """Return whether the forwarder is compiled (setup.py)."""
    return Path(sys.modules[Forwarder.__module__].__file__ or "").suffix != ".py"


def processor_s() -> float:
    """Return the processor time of this process and of its ended children, s."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): orphans become children of this process."""


def processor_s_of(words: Sequence[str | Path]) -> float:
    """Return the processor time, s, of a command and of all that it starts; raise BenchError if it fails."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    before = processor_s()
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    if done.returncode:
        raise BenchError(f"{words[0]}: {done.stderr.strip().splitlines()[-1]}")
    return processor_s() - before


if __name__ == "__main__":
    print(json.dumps(importlib.import_module(sys.argv[1]).measure(*json.loads(sys.argv[2]))))
