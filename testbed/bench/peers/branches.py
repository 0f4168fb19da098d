"""Processor time of commands beside a merged fork: `python -m testbed.bench.peers.branches [--messages N]`.

An account replicates one feed of N messages, and a tenth as many are in a second branch, which forks from the
feed at nine tenths. Each command runs in a process of its own, which reads all branches of the feed. The same
commands beside the same store show the difference, where the feed is not merged: there the messages from the
fork on are ignored. Times are those of user and system together, the median of several.
"""

import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Final

import click

from ssb.daemon.account import Account
from ssb.keys import Identity
from ssb.message import Message
from testbed.bench.figures import Row, figure
from testbed.bench.peers.commands import command_beside
from testbed.bench.program import command, report, run

_BAR_S: Final = 2.0
_AUTHOR: Final = Identity.from_seed(b"a" * 32)


def make_account(directory: Path, messages: int, *, is_merged: bool) -> None:
    """Make an account with a forked feed."""
    first = _line(None, messages, "first")
    second = _line(first[messages * 9 // 10 - 1], messages // 10, "second")
    with closing(Account(directory)) as account:
        account.feeds.append(first, 1.5e12)
        if is_merged:
            account.merged.merge(_AUTHOR.ref)
            account.merged.append(second, 1.5e12)
        else:
            account.feeds.append(second[:1], 1.5e12)


def _line(tip: Message | None, count: int, text: str) -> list[Message]:
    """Return so many posts behind a message."""
    made: list[Message] = []
    for number in range(count):
        before = made[-1] if made else tip
        content = {"type": "post", "text": f"{text} {number} ".ljust(200, "x")}
        made.append(Message.create(_AUTHOR, before, content, 1.5e12 + number))
    return made


def measure(directory: Path, messages: int, repeats: int) -> Iterator[Row]:
    """Yield the processor time of each command, with and without the merge."""
    for is_merged in (False, True):
        account = directory / ("merged" if is_merged else "frozen")
        make_account(account, messages, is_merged=is_merged)
        for words in (["status"], ["log"], ["log", "--causal"]):
            times = [_seconds(account, *words) for _ in range(repeats)]
            yield figure(f"{' '.join(words)}, {account.name}", median(times), "s", _BAR_S, is_most=True)


def _seconds(directory: Path, *words: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command_beside(directory, *words), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@command
@click.option("--messages", type=click.IntRange(min=10), default=10_000)
@click.option("--repeats", type=click.IntRange(min=1), default=3)
def bench(messages: int, repeats: int, as_json: bool) -> None:
    """Measure the processor time of commands beside a forked feed, merged and not."""
    with tempfile.TemporaryDirectory() as directory:
        figures = list(measure(Path(directory), messages, repeats))
    report(f"a feed of {messages:,} messages, and {messages // 10:,} in a second branch", figures, as_json)


if __name__ == "__main__":
    run(bench, "testbed.bench.peers.branches")
