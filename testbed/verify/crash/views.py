"""Killed peers with views of their messages.

A child process opens the account, receives messages of others, publishes its own, saves its views, and opens
the account again. After a kill, reopened views must equal those derived from the store's messages, whatever
the file of views contains. At every fifth kill the store is damaged first, so that only a rewrite can repair
it, and the child is killed during the repair: all messages must survive.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from ssb.daemon import views
from ssb.daemon.account import STORE, Account
from ssb.daemon.views import ABOUT, FILE, Views
from ssb.graph import CONTACT
from ssb.keys import Identity
from ssb.message import Message
from ssb.store.mend import check_file
from testbed.verify.crash.drill import Drill, Fault

_MEND_EVERY = 5
_FEEDS, _LENGTH, _NOW = 5, 150, 1.6e12


class ViewsDrill(Drill):
    """Kills of peers that keep views; see Drill."""

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed)
        self._authors = [Identity.from_seed(self._rng.randbytes(32)) for _ in range(_FEEDS)]
        self._feeds = [self._feed(author) for author in self._authors]
        self._is_damaged = False
        self._before: set[str] = set()

    def prepare(self, kill: int) -> None:
        """See Drill: occasionally damage the store."""
        self._is_damaged = kill % _MEND_EVERY == _MEND_EVERY - 1
        self._before = self._damage() if self._is_damaged else set()
        self.counts["of stores that are written anew"] += self._is_damaged

    def _feed(self, author: Identity) -> list[Message]:
        messages: list[Message] = []
        for number in range(_LENGTH):
            to = self._rng.choice(self._authors).ref
            content: dict[str, Any] = {"type": CONTACT, "contact": to, "following": self._rng.random() < 0.8}
            if number % 3 == 0:
                content = {"type": ABOUT, "about": to, "name": f"name {number}"}
            messages.append(Message.create(author, messages[-1] if messages else None, content, _NOW))
        return messages

    def _damage(self) -> set[str]:
        """Damage a row of the table of feeds; return the ids of all messages."""
        if not (self.path / STORE).exists():
            return set()
        with closing(Account(self.path)) as account:
            held = {stored.id for stored in account.feeds.newest(1 << 40)}
        with closing(sqlite3.connect(self.path / STORE, isolation_level=None)) as database:
            database.execute("UPDATE feeds SET sequence = sequence + 1 WHERE feed = 1")
        return held

    def write(self, rng: Random, say: Callable[[bytes], object]) -> None:
        views._MOST_BEHIND = 30
        if self._is_damaged:
            say(b"0\n")
            check_file(self.path / STORE)
        while True:
            account = Account(self.path)
            for _ in range(rng.randint(1, 8)):
                self._change(account, rng, say)
            account.close()

    def _change(self, account: Account, rng: Random, say: Callable[[bytes], object]) -> None:
        feed = rng.choice(self._feeds)
        _ = account.views
        if rng.random() < 0.4:
            to = feed[0].author
            account.publish({"type": CONTACT, "contact": to, "following": rng.random() < 0.7}, _NOW)
            say(b"1\n")
            return
        held = account.feeds.tips().get(feed[0].author, 0)
        new = feed[held : held + rng.randint(1, 20)]
        account.feeds.append(new, _NOW)
        say(f"{len(new)}\n".encode())
        for message in new:
            account.update_views(message)

    def check(self, lines: list[str], *, is_thorough: bool) -> None:
        self.counts["messages acknowledged"] += sum(map(int, lines))
        if not (self.path / STORE).exists():
            return
        if self._is_damaged:
            check_file(self.path / STORE)
        with closing(Account(self.path)) as account:
            there = {stored.id for stored in account.feeds.newest(1 << 40)}
            if not self._before <= there:
                raise Fault(f"{len(self._before - there)} messages are gone")
            (self.path / "none").unlink(missing_ok=True)
            anew = Views(self.path / "none", account.feeds, account.identity.ref, 2)
            self.counts["files of views that were used"] += (self.path / FILE).exists()
            for what, one, other in (
                ("follows", account.graph.statements(), anew.graph.statements()),
                ("names", account.views.directory.assignments("name"), anew.directory.assignments("name")),
                ("replicated", account.graph.replicated(), anew.graph.replicated()),
            ):
                if sorted(map(repr, one)) != sorted(map(repr, other)):
                    raise Fault(f"{what} are not those of the messages")
