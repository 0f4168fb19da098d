"""`python -m testbed.verify.fuzz` or `make fuzz`: fuzzes for some time; shrinks and prints failures."""

import hashlib
import importlib.util
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console

from testbed.cli.usage import HELP
from testbed.errors import UserError
from testbed.verify.fuzz.bugs import BUGS, planted
from testbed.verify.fuzz.corpus import SEEDS, read, unpack
from testbed.verify.fuzz.minimise import failure_of, minimise, snippet
from testbed.verify.fuzz.targets import TARGETS

_console = Console(highlight=False, soft_wrap=True)
PAGES = "pages"
"""Not a target of Atheris: all of `feednet analyze`."""

_SLOW = {"captures": 60}
"""Maximum seconds per input, default 5; many small files take long on a busy machine."""
_MEMORY_MB = 1024
_ATTEMPTS = 3
"""libFuzzer's timeout may kill a process that ends before writing its failing input."""


class Result(NamedTuple):
    """Result of fuzzing: inputs tried, coverage, and a failing input, or None."""

    executions: int
    coverage: int
    found: bytes | None
    log: str


def fuzz(
    target: str, *, corpus: Path, seconds: int = 0, runs: int = 0, seed: int = 0, bug: str = ""
) -> Result:
    """Fuzz one target in a process of its own, until a failure, `seconds` or `runs`.

    `corpus` receives the inputs with new coverage. Raises UserError if Atheris is not installed.
    """
    if importlib.util.find_spec("atheris") is None:
        raise UserError("fuzzing needs Atheris: pip install atheris (Linux on x86-64, Python 3.11 to 3.13)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(read(SEEDS / f"{target}.hex") or {"nothing": b"\0"}, folder / "seeds")
        corpus.mkdir(parents=True, exist_ok=True)
        # Linux includes the parent's memory at the fork in a process's peak.
        memory = _MEMORY_MB + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        arguments = [
            f"-artifact_prefix={folder}/",
            f"-timeout={_SLOW.get(target, 5)}",
            f"-rss_limit_mb={memory}",
        ]
        arguments += [f"-seed={seed}"] * (seed > 0) + [f"-runs={runs}"] * (runs > 0)
        arguments += [f"-max_total_time={seconds}"] * (seconds > 0)
        command = [sys.executable, "-m", "testbed.verify.fuzz.engine", target, bug, str(folder / "seeds")]
        for _ in range(_ATTEMPTS):
            done = subprocess.run(
                [*command, *arguments, str(corpus), str(folder / "seeds")],
                env=os.environ | {"PYTHONHASHSEED": "0"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
            failed = [
                path for path in sorted(folder.iterdir()) if path.is_file() and "slow-unit" not in path.name
            ]
            if failed or done.returncode != -signal.SIGALRM:
                break
        counts = re.findall(r"^#(\d+)\t.*? cov: (\d+)", done.stdout, re.MULTILINE) or [("0", "0")]
        if done.returncode and not failed:
            raise UserError(f"the fuzzer has ended with {done.returncode}:\n{done.stdout[-2000:]}")
        return Result(
            int(counts[-1][0]), int(counts[-1][1]), failed[0].read_bytes() if failed else None, done.stdout
        )


@click.command(context_settings=HELP)
@click.argument("targets", nargs=-1, type=click.Choice([*TARGETS, PAGES]))
@click.option(
    "--seconds", type=click.IntRange(min=1), default=60, envvar="FUZZ_SECONDS", help="For each target."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the mutations; 0 draws one.")
@click.option(
    "--corpus",
    type=click.Path(path_type=Path),
    default=Path(".fuzz"),
    help="Folder that keeps the inputs that reach new code.",
)
@click.option("--bug", type=click.Choice(list(BUGS)), help="Plant a bug first, to see it found.")
@click.option("--replay", metavar="HEX", help="Run this one input on the target.")
def main(
    targets: tuple[str, ...], seconds: int, seed: int, corpus: Path, bug: str | None, replay: str | None
) -> None:
    """Fuzz TARGETS (all, if none is given); exit status 1 if something fails."""
    if bug is not None:
        targets = (BUGS[bug].target,)
    if replay is not None:
        for name in targets:
            TARGETS[name].check(bytes.fromhex(replay))
        return
    failed = False
    for name in targets or (*TARGETS, PAGES):
        if name == PAGES:
            failed |= _pages(seconds, seed)
            continue
        _console.print(f"{name}: fuzzing for {seconds} s")
        folder = corpus / name if bug is None else Path(tempfile.mkdtemp())
        result = fuzz(name, corpus=folder, seconds=seconds, seed=seed, bug=bug or "")
        _console.print(f"{name}: {result.executions:,} inputs, coverage {result.coverage}")
        if result.found is not None:
            failed = True
            if bug is None:
                _show(name, result)
            else:
                with planted(bug):
                    _show(name, result)
    if failed:
        sys.exit(1)


def _pages(seconds: int, seed: int) -> bool:
    """Fuzz all of `feednet analyze`; return whether something failed."""
    from testbed.verify.fuzz.pages import fuzz_pages

    _console.print(f"{PAGES}: fuzzing for {seconds} s")
    try:
        tried = fuzz_pages(seconds, seed)
    except Exception:
        _console.print(traceback.format_exc(), markup=False)
        return True
    _console.print(f"{PAGES}: {tried:,} captures")
    return False


def _show(name: str, result: Result) -> None:
    """Print the traceback, the minimal input with the same failure, and a test of it."""
    found = result.found or b""
    target = TARGETS[name]
    failure = failure_of(target.check, found)
    if failure is None:
        _console.print("fails in the fuzzer only: too slow, too large, or because of what came before")
        _console.print(result.log[-3000:], markup=False)
    else:
        found = minimise(target, found)
        kind, file, line = failure
        try:
            target.check(found)
        except Exception as error:
            _console.print(f"{kind} at {Path(file).name}:{line}: {error}", markup=False)
    _console.print(f"\n{found.hex()}\n\n{snippet(name, found)}", markup=False)
    _console.print(f"input {hashlib.sha256(found).hexdigest()[:8]}: add it to tests/fuzz/corpus/{name}.hex")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        _console.print(f"error: {error}", style="red", markup=False)
        sys.exit(1)
