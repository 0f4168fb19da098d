"""Seconds to make views again from the log: `python -m testbed.bench.peers.views [--messages N]`.

The store is that of `testbed.bench.peers.commands`. Views are indices over logs: if one is lost, or its rules
change, it is computed from the first message on (the *Kappa architecture*: the log is the only truth). Each
row "again" reads the messages of the types that a view needs, and reduces them. "A further message" is the
same reduce for one message more, which is all that a peer does while it runs. A chat has its posts in causal
order (Tarr et al., "Secure Scuttlebutt", ACM ICN 2019, figure 4): late posts go to their places in a thread
incrementally, or the whole thread is sorted again for each. Times are of the processor.
"""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import click

from ssb.applications.catalogue import APPLICATIONS
from ssb.applications.tangles import Tangle
from ssb.daemon.views import Views
from ssb.keys import Identity
from ssb.message import Message
from ssb.store.admission import Changes
from ssb.store.feeds import read_log
from ssb.store.sqlite import SqliteFeeds
from testbed.bench.figures import Row, figure
from testbed.bench.peers.commands import People
from testbed.bench.peers.store import BATCH
from testbed.bench.program import command, report, run, timed

_PEOPLE = 10  # in the thread


def measure(directory: Path, messages: int, feeds: int, posts: int) -> Iterator[Row]:
    """Measure everything once, in a directory with enough space."""
    people, million = People(Random(0), feeds), 1e6 / messages
    with SqliteFeeds(directory / "feeds.sqlite") as store:
        for batch in people.batches(messages):
            store._commit(Changes(1.6e12, batch))
        states = {name: each.state() for name, each in APPLICATIONS.items()}
        views: list[Views] = []
        origin = people.authors[0].ref
        every = timed(lambda: views.append(Views(directory / "views", store, origin, 3)))
        yield figure("follows, names and pubs, again", every * million, "s/million messages")
        for name, application in APPLICATIONS.items():
            seconds = timed(partial(_reduce, store, application.types, states[name]))
            every += seconds
            yield figure(f"{name}, again", seconds * million, "s/million messages")
        yield figure("all views, again", every * million, "s/million messages")
        (further,) = people.batches(BATCH)
        adding = timed(
            lambda: [each.add(message) for message in further for each in (*views, *states.values())]
        )
        yield figure("a further message, all views", adding / len(further) * 1e6, "us")
    yield from _chat(posts)


def _reduce(store: SqliteFeeds, types: tuple[str, ...], state: Any) -> None:
    for stored in read_log(store, 0, types):
        state.add(stored.message)


def _chat(posts: int) -> Iterator[Row]:
    """Measure a thread whose posts come as they were written, one author's last, or in any order."""
    rng = Random(0)
    written = thread(rng, posts)
    late = written[-1].author
    arrivals = {
        "as written": written,
        "one author late": sorted(written, key=lambda post: post.author == late),
        "in any order": rng.sample(written, posts),
    }
    for order, arrived in arrivals.items():
        tangle, adding, sorting = Tangle(written[0].id), 0.0, 0.0
        for post in arrived:
            adding += timed(partial(tangle.add, post))
            sorting += timed(tangle.computed)
        for name, seconds in (("incrementally", adding), ("sorted for each post", sorting)):
            yield figure(f"chat of {posts:,} {order}, {name}", seconds / posts * 1e6, "us/post")


def thread(rng: Random, posts: int) -> list[Message]:
    """Return a thread of ten people, each of whom answers the newest post or one of the four before."""
    people = [Identity.from_seed(rng.randbytes(32)) for _ in range(_PEOPLE)]
    tips: dict[str, Message] = {}
    written: list[Message] = []
    for time in range(posts):
        author = rng.choice(people)
        content: dict[str, Any] = {"type": "post", "text": "x" * 100}
        if written:
            content |= {"root": written[0].id, "branch": rng.choice(written[-5:]).id}
        tips[author.ref] = Message.create(author, tips.get(author.ref), content, 1.5e12 + time)
        written.append(tips[author.ref])
    return written


@command
@click.option("--messages", type=click.IntRange(min=1000), default=300_000)
@click.option("--feeds", type=click.IntRange(min=2), default=2_000)
@click.option("--posts", type=click.IntRange(min=10), default=1_000, help="Of the chat.")
def bench(messages: int, feeds: int, posts: int, as_json: bool) -> None:
    """Measure how long it takes to make views again from the logs of SSB feeds."""
    with tempfile.TemporaryDirectory() as directory:
        figures = list(measure(Path(directory), messages, feeds, posts))
    report(f"{messages:,} messages of {feeds:,} feeds", figures, as_json, messages=messages, feeds=feeds)


if __name__ == "__main__":
    run(bench, "testbed.bench.peers.views")
