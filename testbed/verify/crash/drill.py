"""Killing a process that writes to a file, at a random instant, and hearing what it has said."""

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
    """A store is not what it should be after a kill; the message says which kill, and what differs."""


def kill_writer(write: Callable[[int], object], rng: Random) -> list[str]:
    """Run `write` in a process of its own, which says lines on the pipe that it is given, for a random time.

    Return the lines. Raises Fault if the writer has met an error.
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
        select.select([heard], [], [])  # until it begins the first change, or has failed
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
        directory: where stores are made.
        seed: of everything but the instants at which processes are killed.

    Attributes:
        counts: kills, stores, and what has been acknowledged.
        path: the directory of the store.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.path = directory
        self._directory = directory
        self._rng = Random(seed)

    def run(self, kills: int) -> None:
        """Kill so many writers. Raises Fault as soon as a store is not as it should be."""
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
        """Note that the store is a new one."""

    def prepare(self, kill: int) -> None:
        """Do something to the store before the kill of a number."""

    def write(self, rng: Random, say: Callable[[bytes], object]) -> None:
        """Change the store without end, in the child; call `say` with lines."""
        raise NotImplementedError

    def check(self, lines: list[str], *, is_thorough: bool) -> None:
        """Look at the store after a kill; raise Fault. `lines`: what the child has said."""
        raise NotImplementedError
