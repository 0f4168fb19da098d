"""Duration of commands beside a large store: `python -m testbed.bench.peers.commands [--messages N]`.

It makes an account like a peer's after a year: eight messages in ten are posts, three in ten of which answer
another; one in ten is a like; most others follow or block somebody, some give a name, belong to a gathering
or to a game of chess; one in a hundred is private, in the format of groups, and for others. The account
follows fifty of the feeds. Each command then runs in a process of its own; times are wall-clock, the median
of several. The first status is separate: it creates the views of the messages (`ssb.daemon.views`), as after
their loss; so do the first links with their index (`ssb.daemon.backlinks`). `view threads` reads all posts
each time, `group list` all private messages. The thread is that with the most answers. A peer counts as
started when it reports that it is ready.

Slowness is no failure: a figure on the wrong side of its bar is shown as missed.
"""

import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median

import click

from ssb import key_file
from ssb.canonical import Value
from ssb.daemon.account import Account
from ssb.graph import CONTACT
from ssb.groups.envelope import DIRECT, Key, box, context_of
from ssb.message import Message
from ssb.store.admission import Changes
from ssb.store.feeds import read_log
from ssb.store.sqlite import SqliteFeeds
from testbed.bench.figures import Row, figure
from testbed.bench.peers.store import Source
from testbed.bench.program import command, report, run

_BAR_S = 0.7
_FOLLOWS = 50
_TALKED_OF = 1_000  # posts that are answered, the newest


def command_beside(directory: Path, *words: str) -> list[str]:
    """Return a command of `feednet ssb` with an account's directory."""
    program = "from testbed.cli.main import main; main()"
    return [sys.executable, "-c", program, "ssb", "--path", str(directory), *words]


class People(Source):
    """Feeds whose authors write, follow and name each other."""

    def __init__(self, rng: Random, feeds: int) -> None:
        super().__init__(rng, feeds)
        self._weights = [(rank + 1) ** -0.8 for rank in range(feeds)]
        self._roots: list[str] = []
        self._gatherings: list[str] = []
        self._games: dict[int, str] = {}  # by the feed that has begun each

    def _next(self, feed: int) -> Message:
        drawn = self._rng.random()
        content: dict[str, Value] = {"type": "post"}
        if drawn > 0.99:
            return self._write(feed, self._private(feed))
        if drawn < 0.09:
            (to,) = self._rng.choices(self.authors, self._weights)
            follows = self._rng.random() < 0.9
            content = {"type": CONTACT, "contact": to.ref, "following": follows, "blocking": not follows}
        elif drawn < 0.1 or self._tips[feed] is None:
            content = {"type": "about", "about": self.authors[feed].ref, "name": f"person {feed}"}
        elif drawn < 0.22 and self._roots:
            content = self._of_application(drawn, feed)
        else:
            content["text"] = self._text()
            if self._roots and self._rng.random() < 0.3:
                root = self._rng.choice(self._roots[-_TALKED_OF:])
                content |= {"root": root, "branch": root}
        message = self._write(feed, content)
        if content["type"] == "post" and "root" not in content:
            self._roots.append(message.id)
        elif content["type"] == "gathering":
            self._gatherings.append(message.id)
        elif content["type"] == "chess_invite":
            self._games[feed] = message.id
        return message

    def _of_application(self, drawn: float, feed: int) -> dict[str, Value]:
        """Return a like, or a message of a gathering or a game of chess."""
        if drawn < 0.2:
            return {"type": "vote", "vote": {"link": self._rng.choice(self._roots[-_TALKED_OF:]), "value": 1}}
        if drawn < 0.21 and self._gatherings and self._rng.random() < 0.9:
            to = self._rng.choice(self._gatherings[-_TALKED_OF:])
            return {"type": "about", "about": to, "attendee": {"link": self.authors[feed].ref}}
        if drawn < 0.21:
            return {"type": "gathering"}
        if feed not in self._games:
            return {
                "type": "chess_invite",
                "inviting": self._rng.choice(self.authors).ref,
                "myColor": "white",
            }
        game = self._games[feed]
        return {"type": "chess_move", "root": game, "branch": game, "ply": 1, "pgnMove": "e4"}

    def _private(self, feed: int) -> str:
        """Return a content for two others: no key of the account's opens it."""
        tip = self._tips[feed]
        context = context_of(self.authors[feed].ref, None if tip is None else tip.id)
        keys = [Key(self._rng.randbytes(32), DIRECT) for _ in range(2)]
        content = {"type": "post", "text": self._long_text[:200]}
        return box(content, context, keys, self._rng.randbytes)


def make_account(directory: Path, messages: int, feeds: int) -> list[str]:
    """Make an account with `messages` messages, without verifying its own signatures; return its feeds."""
    people = People(Random(0), feeds)
    directory.mkdir(parents=True)
    own = key_file.create(directory / "secret")
    with SqliteFeeds(directory / "feeds.sqlite") as store:
        for batch in people.batches(messages):
            store._commit(Changes(1.6e12, batch))
        for author in people.authors[:: max(1, feeds // _FOLLOWS)]:
            store.publish(own, {"type": CONTACT, "contact": author.ref, "following": True}, 1.6e12)
    account = Account(directory)
    account.own.settle()  # nobody else has this identity
    account.close()
    return [author.ref for author in people.authors]


def measure(directory: Path, feeds: list[str], repeats: int) -> Iterator[Row]:
    """Time each command several times; `feeds` are candidates for following."""
    yield figure("status, the first time", _seconds(directory, "status"), "s")
    yield figure("view threads", _seconds(directory, "view", "threads"), "s")
    yield figure("group list", _seconds(directory, "group", "list"), "s")
    root = _busiest_root(directory)
    yield figure("links, the first time", _seconds(directory, "links", root), "s")
    commands = {
        "status": ["status"],
        "follow": ["follow", feeds[1]],
        "publish": ["publish", "a text"],
        "log": ["log"],
        "log of a feed": ["log", feeds[0]],
        "log of a type": ["log", "--type", CONTACT],
        "links": ["links", root],
        "thread": ["get", root, "--thread"],
    }
    for name, words in commands.items():
        times = [_seconds(directory, *words) for _ in range(repeats)]
        yield figure(name, median(times), "s", _BAR_S, is_most=True)
    begun = time.perf_counter()
    peer = subprocess.Popen(
        command_beside(directory, "peer", "--host", "127.0.0.1", "--port", "18010"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert peer.stdout is not None
        peer.stdout.readline()
        yield figure("start of the peer", time.perf_counter() - begun, "s", _BAR_S, is_most=True)
        for name, words in commands.items():
            times = [_seconds(directory, *words) for _ in range(repeats)]
            yield figure(f"{name}, the peer running", median(times), "s", _BAR_S, is_most=True)
    finally:
        peer.send_signal(signal.SIGINT)
        peer.wait()


def _busiest_root(directory: Path) -> str:
    """Return the message that most posts answer."""
    with SqliteFeeds(directory / "feeds.sqlite", read_only=True) as store:
        contents = (stored.message.content for stored in read_log(store, 0, {"post"}))
        roots = Counter(content.get("root") for content in contents if isinstance(content, dict))
    del roots[None]
    return str(roots.most_common(1)[0][0])


def _seconds(directory: Path, *words: str) -> float:
    begun = time.perf_counter()
    subprocess.run(command_beside(directory, *words), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


@command
@click.option("--messages", type=click.IntRange(min=1000), default=300_000)
@click.option("--feeds", type=click.IntRange(min=2), default=2_000)
@click.option("--repeats", type=click.IntRange(min=1), default=5)
def bench(messages: int, feeds: int, repeats: int, as_json: bool) -> None:
    """Measure how long commands take beside a large store of SSB feeds."""
    with tempfile.TemporaryDirectory() as directory:
        account = Path(directory) / "account"
        people = make_account(account, messages, feeds)
        figures = list(measure(account, people, repeats))
    report(f"{messages:,} messages of {feeds:,} feeds", figures, as_json)


if __name__ == "__main__":
    run(bench, "testbed.bench.peers.commands")
