"""Killing peers while they keep views of what they store: `python -m testbed.verify.crash --store views`.

A child process opens an account, as it was left, takes in messages of others, publishes its own, saves its
views, and opens the account again, as fast as it can. It is killed at a random instant. Then the views that
are opened must be those that follow from the messages of the store, all of them and no others, whatever the
file of views has. At every fifth kill the store is damaged before, in a way that only writing it anew can
mend, and the child is killed while it does: all messages must be there in the end.
"""

import os
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from ssb.daemon import views
from ssb.daemon.account import STORE, Account
from ssb.daemon.views import ABOUT, CONTACT, FILE, Views
from ssb.keys import Identity
from ssb.message import Message
from ssb.store.feeds import StoreError
from ssb.store.mend import check_file
from testbed.verify.kill9 import Fault, kill_writer

_KILLS_A_STORE = 10
_MEND_EVERY = 5
_FEEDS, _LENGTH, _NOW = 5, 150, 1.6e12


class ViewsDrill:
    """Kills, one after the other.

    Args:
        directory: where accounts are made.
        seed: of everything but the instants at which processes are killed.

    Attributes:
        counts: kills, accounts, and messages that were acknowledged.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._directory = directory
        self._path = directory
        self._rng = Random(seed)
        self._authors = [Identity.from_seed(self._rng.randbytes(32)) for _ in range(_FEEDS)]
        self._feeds = [self._feed(author) for author in self._authors]

    def run(self, kills: int) -> None:
        """Kill so many processes. Raises Fault as soon as views or messages are not as they should be."""
        for kill in range(kills):
            if kill % _KILLS_A_STORE == 0:
                shutil.rmtree(self._path if kill else self._directory / "none", ignore_errors=True)
                self._path = self._directory / f"account-{kill}"
                self.counts["accounts"] += 1
            is_damaged = kill % _MEND_EVERY == _MEND_EVERY - 1
            held = self._damage() if is_damaged else set()
            plan = Random(self._rng.random())
            lines = kill_writer(partial(self._write, plan, is_damaged), self._rng)
            self.counts["kills"] += 1
            self.counts["of stores that are written anew"] += is_damaged
            self.counts["messages acknowledged"] += sum(int(line) for line in lines)
            try:
                if is_damaged:
                    check_file(self._path / STORE)
                self._check(held)
            except (Fault, StoreError, ValueError) as error:
                raise Fault(f"kill {kill + 1}: {error}") from error

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
        if not (self._path / STORE).exists():
            return set()
        with closing(Account(self._path)) as account:
            held = {stored.id for stored in account.feeds.newest(1 << 40)}
        with closing(sqlite3.connect(self._path / STORE, isolation_level=None)) as database:
            database.execute("UPDATE feeds SET sequence = sequence + 1 WHERE feed = 1")
        return held

    def _write(self, rng: Random, mends: bool, say: int) -> NoReturn:
        """Be the child."""
        try:
            views._MOST_BEHIND = 30
            while True:
                if mends:
                    os.write(say, b"0\n")
                    check_file(self._path / STORE)
                    mends = False
                account = Account(self._path)
                for _ in range(rng.randint(1, 8)):
                    self._change(account, rng, say)
                account.close()
        except BaseException as error:
            os.write(say, f"failed {type(error).__name__} {error}\n".encode())
        finally:
            os._exit(1)

    def _change(self, account: Account, rng: Random, say: int) -> None:
        feed = rng.choice(self._feeds)
        _ = account.views
        if rng.random() < 0.4:
            to = feed[0].author
            account.publish({"type": CONTACT, "contact": to, "following": rng.random() < 0.7}, _NOW)
            os.write(say, b"1\n")
            return
        held = account.feeds.tips().get(feed[0].author, 0)
        new = feed[held : held + rng.randint(1, 20)]
        account.feeds.append(new, _NOW)
        os.write(say, f"{len(new)}\n".encode())
        for message in new:
            account.read(message)

    def _check(self, held: set[str]) -> None:
        if not (self._path / STORE).exists():
            return
        with closing(Account(self._path)) as account:
            there = {stored.id for stored in account.feeds.newest(1 << 40)}
            if not held <= there:
                raise Fault(f"{len(held - there)} messages are gone")
            (self._path / "none").unlink(missing_ok=True)
            anew = Views(self._path / "none", account.feeds, account.identity.ref, 2)
            self.counts["files of views that were used"] += (self._path / FILE).exists()
            for what, one, other in (
                ("follows", account.graph.statements(), anew.graph.statements()),
                ("names", account.views.directory.assignments("name"), anew.directory.assignments("name")),
                ("replicated", account.graph.replicated(), anew.graph.replicated()),
            ):
                if sorted(map(repr, one)) != sorted(map(repr, other)):
                    raise Fault(f"{what} are not those of the messages")
