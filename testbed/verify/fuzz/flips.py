"""Bit flips in a peer's store: `python -m testbed.verify.fuzz.flips [--flips N] [--seed N]`.

Theory of operation. An account holds feeds whose authors write, follow, block and name each other; one feed
is forked, and one message is out of order. All messages are known. Each flip changes one random byte of a
copy: half of them in the text of a message, the others anywhere in the store or its views. Then all reading
and writing commands run. None may raise anything but a one-line error. No message may be shown or sent unless
it was stored, and no feed with a gap. New messages continue the account's own feed, or are refused: so
nothing forks. Then `check` runs, and all messages arrive again from peers. In the end the account must have
them all, and the same follows, blocks and names as before.
"""

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import click

from ssb.canonical import stringify
from ssb.daemon.account import STORE, Account
from ssb.daemon.views import ABOUT, FILE
from ssb.graph import CONTACT
from ssb.keys import Identity
from ssb.message import Message
from ssb.store.feeds import StoreError, read_log
from ssb.store.mend import check_chains
from testbed.cli.main import MENDABLE, complaint, feednet
from testbed.cli.usage import HELP

_FEEDS, _LENGTH, _NOW = 6, 40, 1_600_000_000_000.0
_TEXTS: Final = ("a short text", "länger, mit Umlauten, und 🚢", "x" * 900, "y" * 6_000)
COMMANDS: Final = {
    "status": ["status"],
    "log": ["log"],
    "log of a type": ["log", "--type", CONTACT],
    "publish": ["publish", "after the flip"],
    "status again": ["status", "--json"],
}


class Fault(Exception):
    """A violated requirement; the message is one line."""


class Outcome(NamedTuple):
    """A command's result: its output, and its error line if it failed."""

    printed: str
    error: str


class Flip(NamedTuple):
    """A flip and its effects.

    Attributes:
        place: file, byte offset, and its former content if known.
        outcomes: command -> result.
        lost: number of messages counted as damaged after the check.
    """

    place: str
    outcomes: dict[str, Outcome]
    lost: int


class Material:
    """An account and its contents.

    Args:
        path: of the account.
        rng: of everything.
    """

    def __init__(self, path: Path, rng: Random) -> None:
        self.path = path
        account = Account(path)
        self.own = account.identity.ref
        authors = [Identity.from_seed(rng.randbytes(32)) for _ in range(_FEEDS)]
        feeds = [_feed(author, authors, account.identity, rng) for author in authors]
        for start in range(0, _LENGTH, 5):
            for feed in feeds:
                account.feeds.append(feed[start : start + 5], _NOW)
        for author in authors[:2]:
            account.publish({"type": CONTACT, "contact": author.ref, "following": True}, _NOW)
        account.publish({"type": ABOUT, "about": self.own, "name": "me"}, _NOW)
        for number in range(5):
            account.publish({"type": "post", "text": f"my {number}"}, _NOW)
        forker, loner = (Identity.from_seed(rng.randbytes(32)) for _ in range(2))
        branches = [Message.create(forker, None, {"type": "post", "text": text}, 1) for text in "ab"]
        account.feeds.append(branches, _NOW)
        alone = _feed(loner, authors, account.identity, rng)
        account.feeds.add_out_of_order(alone[10], _NOW)
        self.messages = {stored.id: stored.message for stored in read_log(account.feeds, 0)}
        self.single = {message.id: message for message in (*branches, *alone)}
        self.texts = [message.encoded for message in self.messages.values()]
        self.known = social_view(account)
        account.views.save()
        account.close()


def _feed(author: Identity, others: list[Identity], own: Identity, rng: Random) -> list[Message]:
    messages: list[Message] = []
    for number in range(_LENGTH):
        to = rng.choice([own, *others]).ref
        content: dict[str, Any] = {"type": "post", "text": rng.choice(_TEXTS)}
        if number % 4 == 1:
            content = {"type": CONTACT, "contact": to, "following": True, "blocking": rng.random() < 0.2}
        elif number % 4 == 2:
            content = {"type": ABOUT, "about": author.ref, "name": f"name {number} ü"}
        messages.append(Message.create(author, messages[-1] if messages else None, content, _NOW))
    return messages


def social_view(account: Account) -> tuple[Any, ...]:
    """Return an account's follows, blocks and names."""
    namer = account.views.namer()
    return (
        set(account.graph.replicated()),
        set(account.graph.blocks()),
        {feed: namer(feed) for feed in account.feeds.tips()},
    )


class Drill:
    """A series of flips, each in a copy of one account.

    Args:
        directory: for accounts.
        seed: of everything.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self._rng = Random(seed)
        self._copy = directory / "copy"
        self.material = Material(directory / "account", self._rng)

    def run(self, flips: int) -> Iterator[Flip]:
        """Yield the result of each flip. Raises Fault."""
        for number in range(flips):
            shutil.rmtree(self._copy, ignore_errors=True)
            shutil.copytree(self.material.path, self._copy)
            place = self._flip(is_in_text=number % 2 == 0)
            try:
                yield self._try(place)
            except Fault as error:
                raise Fault(f"flip {number + 1}, {place}: {error}") from None

    def _flip(self, *, is_in_text: bool) -> str:
        rng = self._rng
        path = self._copy / (FILE if not is_in_text and rng.random() < 0.1 else STORE)
        data = bytearray(path.read_bytes())
        place, what = rng.randrange(len(data)), ""
        while is_in_text:
            text = rng.choice(self.material.texts)
            found = data.find(text[:100])
            place = found + rng.randrange(min(len(text), 1000))  # the rest may be on other pages
            if found >= 0 and place < len(data):
                what = ", in a text"
                break
        data[place] ^= rng.randrange(1, 256)
        path.write_bytes(data)
        return f"byte {place} of {path.name}{what}"

    def _try(self, place: str) -> Flip:
        outcomes = {name: command(self._copy, *words) for name, words in COMMANDS.items()}
        self._compare(command(self._copy, "log", "--all", "--json").printed)
        self._check_served()
        outcomes["check"] = command(self._copy, "check")
        lost = self._check_served()
        if lost is None:
            lost = self._follow_advice(outcomes["check"].error)
        self._refetch()
        return Flip(place, outcomes, lost)

    def _follow_advice(self, said: str) -> int:
        """Follow a check's advice for an unreadable store; return the number of messages lost."""
        if "move it away" not in said:
            raise Fault(f"not opened after the check: {said}")
        (self._copy / STORE).rename(self._copy / "moved-away")
        return len(self.material.messages)

    def _compare(self, lines: str) -> None:
        """Compare shown messages with stored ones."""
        for line in lines.splitlines():
            entry = json.loads(line)
            message = self.material.messages.get(entry["key"])
            text = stringify(entry["value"])
            if message is None and entry["value"]["author"] == self.material.own:
                continue  # it is new
            if message is None or message.text != text:
                raise Fault(f"shown: {text!r}")

    def _check_served(self) -> int | None:
        """Check the messages served to peers; return the number of damaged ones, None if the store cannot be
        opened.
        """
        try:
            account = Account(self._copy)
        except StoreError:
            return None
        try:
            for feed, end in dict(account.feeds.tips()).items():
                served = [stored.message for stored in account.feeds.after(feed, 0, end)]
                if [message.sequence for message in served] != [*range(1, len(served) + 1)]:
                    raise Fault(f"served with a gap: {feed}")
                for message in served:
                    self._judge(message)
            return sum(map(len, account.feeds.damaged().values()))
        except StoreError:
            return None
        finally:
            account.close()

    def _judge(self, message: Message) -> None:
        """Raise Fault for a message neither stored before nor next in the own feed."""
        material = self.material
        if {**material.messages, **material.single}.get(message.id) == message:
            return
        (last,) = [m for m in material.messages.values() if m.author == material.own and m.sequence == 8]
        if message.author != material.own or (message.sequence, message.previous) != (9, last.id):
            raise Fault(f"served, or published: {message.text!r}")

    def _refetch(self) -> None:
        """Receive all messages again as from peers, and compare the account with its former state."""
        account = Account(self._copy)
        try:
            refused = account.feeds.append([*self.material.messages.values()], _NOW).refused
            for feed, error in refused.items():
                raise Fault(f"what comes anew is refused: {feed}: {error}")
            for message in self.material.messages.values():
                if account.feeds.get(message.id) != message:
                    raise Fault(f"did not come anew: {message.sequence} of {message.author}")
            check_chains(account.feeds)
            if social_view(account) != self.material.known:
                raise Fault("follows, blocks or names are not what they were")
        except StoreError as error:
            raise Fault(f"after the check: {error}") from None
        finally:
            account.close()


def command(path: Path, *words: str) -> Outcome:
    """Run `feednet ssb` in this process; raise Fault for anything but a one-line error."""
    printed = StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(StringIO()):
            feednet.main(["ssb", "--path", str(path), *words], prog_name="feednet", standalone_mode=False)
    except MENDABLE as error:
        line = complaint(error)
        if not line or "\n" in line:
            raise Fault(f"{words[0]}: an error of several lines, or none: {line!r}") from None
        return Outcome(printed.getvalue(), line)
    except Exception as error:
        raise Fault(f"{words[0]}: {type(error).__name__}: {error}") from error
    return Outcome(printed.getvalue(), "")


@click.command(context_settings=HELP)
@click.option("--flips", type=click.IntRange(min=1), default=200)
@click.option("--seed", type=int, default=1, help="Of messages and flips.")
def main(flips: int, seed: int) -> None:
    """Flip bytes of a store of SSB feeds, one at a time, and list what each command prints.

    Exit status 1 if a command raises, something altered is shown, or a message does not come anew.
    """
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as directory:
        try:
            for flip in Drill(Path(directory), seed).run(flips):
                click.echo(flip.place)
                for name, outcome in flip.outcomes.items():
                    said = outcome.error.replace(directory, "") or "as ever"
                    counted[f"{name}: {'refused' if outcome.error else 'done'}"] += 1
                    if outcome.error or name == "check":
                        click.echo(f"    {name}: {said}")
                if flip.lost:
                    click.echo(f"    {flip.lost} messages come anew")
        except Fault as error:
            raise click.ClickException(str(error)) from None
    for what, count in counted.items():
        click.echo(f"{count:6,}  {what}")
    click.echo("no command raised, nothing altered was shown or served, and all messages came anew")


if __name__ == "__main__":
    sys.exit(main())
