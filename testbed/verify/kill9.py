"""Killing a process that writes to a file, at a random instant, and hearing what it has said."""

import os
import select
import signal
import time
from collections.abc import Callable
from random import Random
from typing import NoReturn

_LONGEST_S = 0.1


class Fault(Exception):
    """A store is not what it should be after a kill; the message says which kill, and what differs."""


def kill_writer(write: Callable[[int], NoReturn], rng: Random) -> list[str]:
    """Run `write` in a process of its own, which says lines on the pipe that it is given, for a random time.

    Return the lines. Raises Fault if one of them begins with "failed": the writer has met an error.
    """
    is_soon = rng.random() < 0.2
    lifetime = rng.uniform(0, _LONGEST_S / 10 if is_soon else _LONGEST_S)
    heard, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        write(say)
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
