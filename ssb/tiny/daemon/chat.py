"""Chat: lines of text that are written here and that others have written; still without sockets and clocks.

A line is an entry `["TAV", text, none, seconds since 1970]`, as tinySSB's Android app writes text. What is
written is stored before `write` returns. What has come is shown, and only then marked as shown: who is killed
in between sees a line twice, and loses none.

Directly, all share one open set: everybody reads everything. Through a provider, lines go to the contacts of
the user, in a subscription each.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Final, Protocol

from ssb.keys import Identity, feed_ref
from ssb.tiny.bipf import MalformedBipf, decode, encode
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.facts import OPEN
from ssb.tiny.isp.subscription import INVITED, STANDS
from ssb.tiny.isp.terms import SECOND, Terms
from ssb.tiny.node import Node

TEXT: Final = "TAV"
MOST_TEXT: Final = 2000
"""Bytes of a line."""

_PAGE = 100
_AGAIN, _AGAIN_REJECTED = 5 * SECOND, 60 * SECOND
_CONTACTS, _WAITING = "contacts", "waiting lines"


Show = Callable[[str, str], None]
"""Shows a line: who has written it (a feed's reference), and the text. It is shown when this returns."""


class Chat(Protocol):
    """A chat on a node."""

    def write(self, text: str, now: int) -> None:
        """Say a line. Raises ValueError for one that is too long."""

    def go_on(self, now: int) -> None:
        """Show what has come, and do what is due."""

    def next_deadline(self) -> int | None:
        """Return when go_on() is due, ns."""


def line_content(text: str, now: int) -> bytes:
    """Return a line as the content of an entry. Raises ValueError."""
    size = len(text.encode())
    if size > MOST_TEXT:
        raise ValueError(f"a line of {size} bytes; {MOST_TEXT} are possible")
    return encode([TEXT, text, None, now // SECOND])


def text_of(content: bytes) -> str | None:
    """Return the text of a line; None if the content is none."""
    try:
        said = decode(content)
    except MalformedBipf:
        return None
    match said:
        case ["TAV", str(text), *_]:
            return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return None


class _Reader:
    """The program of a node that only reads: what has come is found by go_on()."""

    def take(self, feed: bytes, now: int) -> None:
        """See Program."""

    def on_fork(self, feed: bytes, now: int) -> None:
        """See Program: the feed takes no more."""

    def next_deadline(self) -> int | None:
        """See Program."""
        return None

    def wake(self, now: int) -> None:
        """See Program."""


class DirectChat:
    """A chat of all who hear each other.

    Args:
        node: what it runs on.
        root: who writes here.
        show: see Show.
        now: ns.
    """

    def __init__(self, node: Node, root: Identity, show: Show, now: int) -> None:
        self._node = node
        self._root = root.public_key
        self._show = show
        node.program = _Reader()
        node.join_open([self._root], now)

    def write(self, text: str, now: int) -> None:
        """See Chat."""
        self._node.publish(self._root, line_content(text, now), now)

    def go_on(self, now: int) -> None:
        """See Chat."""
        store = self._node.store
        for key, feed in store.feeds.items():
            if key == self._root:
                continue
            while page := store.read(key, feed.mark, _PAGE):
                for entry in page:
                    text = text_of(entry.content)
                    if text is not None:
                        self._show(feed_ref(key), text)
                    store.set_mark(key, entry.sequence)

    def next_deadline(self) -> int | None:
        """See Chat: what comes tells."""
        return None


class ProviderChat:
    """A chat with contacts, through a provider.

    Args:
        node: what it runs on.
        root: who writes here.
        provider: its root feed.
        contacts: root feeds of those whom one wants to chat with, besides those of earlier times.
        show: see Show.
        tell: is told what happens to the contract and to subscriptions: a word, and a feed's reference.
        terms: of the contract.
        random: for key pairs.
        now: ns.

    Raises ValueError for a contact that is the user or the provider.
    """

    def __init__(
        self,
        node: Node,
        root: Identity,
        provider: bytes,
        contacts: Iterable[bytes],
        show: Show,
        tell: Callable[[str, str], None],
        terms: Terms,
        random: Random,
        now: int,
    ) -> None:
        self._node = node
        self._store = node.store
        self._provider = provider
        self._show, self._tell = show, tell
        self._again: int | None = None
        known = self._store.get(_CONTACTS)
        before = [key for key in known if isinstance(key, bytes)] if isinstance(known, list) else []
        self._contacts = list(dict.fromkeys([*before, *contacts]))
        for contact in self._contacts:
            if contact in (root.public_key, provider):
                raise ValueError(f"{feed_ref(contact)} is no contact: it is you, or the provider")
        self._client = Client(node, root, random, terms, now)
        with self._store.transaction():
            self._store.put(_CONTACTS, self._contacts)
            self._client.follow(provider, now)
        self.go_on(now)

    def write(self, text: str, now: int) -> None:
        """See Chat: to all contacts. It waits for those whose subscription does not stand yet."""
        content = line_content(text, now)
        with self._store.transaction():
            for contact in self._contacts:
                self._put_waiting(contact, [*self._waiting(contact), content])
        self.go_on(now)

    def go_on(self, now: int) -> None:
        """See Chat."""
        for event in self._client.take_events():
            if event.kind != "received":
                self._tell(event.kind, feed_ref(event.peer))
            if event.kind == "onboarded":
                self._again = now
            elif event.kind == "rejected":
                self._again = now + _AGAIN_REJECTED
        if self._again is not None and self._again <= now:
            self._again = None
        for ref, one in list(self._client.subscriptions.items()):
            if one.state == INVITED and one.contact in self._contacts:
                self._client.answer(ref, now, accept=True)
            if one.state == STANDS:
                self._send_waiting(ref, one.contact, now)
            self._show_received(ref, one.contact, now)
        if self._again is None:
            self._ask(now)

    def next_deadline(self) -> int | None:
        """See Chat."""
        return self._again

    def _ask(self, now: int) -> None:
        """Ask for a contract, and for subscriptions, that are not there; in a while again."""
        contract = self._client.contract_with(self._provider)
        if contract is None:
            self._client.onboard(self._provider, now)
        elif contract.facts.state == OPEN:
            known = {one.contact for one in self._client.subscriptions.values()}
            for contact in self._contacts:
                if contact not in known:
                    self._client.subscribe(self._provider, contact, now)
        self._again = now + _AGAIN

    def _send_waiting(self, ref: bytes, contact: bytes, now: int) -> None:
        while waiting := self._waiting(contact):
            with self._store.transaction():
                try:
                    self._client.send(ref, waiting[0], now)
                except ValueError:
                    return  # it has come to its end: the line waits for another subscription
                self._put_waiting(contact, waiting[1:])

    def _show_received(self, ref: bytes, contact: bytes, now: int) -> None:
        while page := self._client.read(ref):
            for entry in page:
                text = text_of(entry.content)
                if text is not None:
                    self._show(feed_ref(contact), text)
            self._client.confirm(ref, page[-1].sequence, now)
            if ref not in self._client.subscriptions:
                return

    def _waiting(self, contact: bytes) -> list[bytes]:
        lines = self._store.get(f"{_WAITING} {contact.hex()}")
        return [line for line in lines if isinstance(line, bytes)] if isinstance(lines, list) else []

    def _put_waiting(self, contact: bytes, lines: list[bytes]) -> None:
        self._store.put(f"{_WAITING} {contact.hex()}", lines or None)
