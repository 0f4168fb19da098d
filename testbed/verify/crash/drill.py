"""Kill a writing process at a random instant, and collect its reports."""

import os
import select
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from ssb.store.feeds import StoreError

_LONGEST_S = 0.1
_KILLS_A_STORE = 10


class Fault(Exception):
    """A store is inconsistent after a kill; the message tells which kill, and the difference."""


def kill_writer(write: Callable[[int], object], rng: Random) -> list[str]:
    """Run `write` in a process of its own, with a pipe for its reports, for a random time.

    Return the reported lines. Raises Fault if the writer failed.
    """
    is_soon = rng.random() < 0.2
    lifetime = rng.uniform(0, _LONGEST_S / 10 if is_soon else _LONGEST_S)
    heard, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        try:
            write(say)
        except BaseException as error:
            os.write(say, f"failed {type(error).__name__} {error}\n".encode())
        finally:
            os._exit(1)
    os.close(say)
    if not is_soon:
        select.select([heard], [], [])  # until the first change or a failure
    time.sleep(lifetime)
    os.kill(child, signal.SIGKILL)
    with os.fdopen(heard, "rb") as pipe:
        lines = pipe.read().decode().splitlines()
    os.waitpid(child, 0)
    for line in lines:
        if line.startswith("failed"):
            raise Fault(line)
    return lines


class Drill:
    """Kills of processes that write to stores of one kind.

    Args:
        directory: for stores.
        seed: of everything except the times of kills.

    Attributes:
        counts: kills, stores, and acknowledged changes.
        path: the directory of the store.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.path = directory
        self._directory = directory
        self._rng = Random(seed)

    def run(self, kills: int) -> None:
        """Kill `kills` writers. Raises Fault at the first inconsistent store."""
        for kill in range(kills):
            if kill % _KILLS_A_STORE == 0:
                if kill:
                    shutil.rmtree(self.path)
                self.path = self._directory / f"store-{kill}"
                self.path.mkdir()
                self.begin()
                self.counts["stores"] += 1
            self.prepare(kill)
            lines = kill_writer(partial(self._write, Random(self._rng.random())), self._rng)
            self.counts["kills"] += 1
            self.counts["before the store was open"] += not lines
            try:
                self.check(lines, is_thorough=kill == kills - 1)
            except (Fault, StoreError, ValueError) as error:
                raise Fault(f"kill {kill + 1}: {error}") from error

    def _write(self, rng: Random, say: int) -> None:
        self.write(rng, partial(os.write, say))

    def begin(self) -> None:
        """Reset for a new store."""

    def prepare(self, kill: int) -> None:
        """Prepare the store for kill number `kill`."""

    def write(self, rng: Random, say: Callable[[bytes], object]) -> None:
        """Change the store endlessly, in the child; call `say` with lines."""
        raise NotImplementedError

    def check(self, lines: list[str], *, is_thorough: bool) -> None:
        """Check the store after a kill; raise Fault. `lines`: the child's reports."""
        raise NotImplementedError
