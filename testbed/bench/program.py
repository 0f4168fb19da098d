"""Common parts of the bench's programs: running them, and measuring in a process of its own."""

import resource
import subprocess
import sys
from pathlib import Path

import click

from forwarder.forwarder import Forwarder
from testbed.bench.load import BenchError


def run(command: click.Command, module: str) -> None:
    """Run the command of a module; obstacles to measuring are one line and exit status 1."""
    try:
        command.main(prog_name=f"python -m {module}", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (BenchError, OSError) as error:
        click.echo(f"feednet: {error}", err=True)
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        click.echo("feednet: interrupted", err=True)
        sys.exit(130)


def printed_by(module: str, *words: str, patience_s: int) -> str:
    """Return a module's output from a process of its own, without freed memory to reuse; raise BenchError."""
    command = [sys.executable, "-m", module, *words]
    try:
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=patience_s)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        ended = f"signal {-error.returncode}" if error.returncode < 0 else f"exit status {error.returncode}"
        raise BenchError(lines[-1] if lines else f"the process ended with {ended}") from error
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"it took longer than {patience_s} s") from error
    return done.stdout


def is_compiled() -> bool:
    """Return whether the forwarder is compiled (setup.py)."""
    return Path(sys.modules[Forwarder.__module__].__file__ or "").suffix != ".py"


def processor_s() -> float:
    """Return the processor time of this process and of its ended children, s."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))
