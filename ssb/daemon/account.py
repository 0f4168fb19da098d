"""A user's account: an identity and the state of its peer, in one directory.

    secret          the identity (ssb.key_file)
    secret.mark     the end of its feed (ssb.store.own_feed)
    secret.ed448    the second key, if the user has one (ssb.suites.own_key)
    secret.ed448.log  the hash of the log that it vouches for
    feeds.sqlite    messages (ssb.store.sqlite)
    views           state computed from them (ssb.daemon.views)
    backlinks       the index of links between them (ssb.daemon.backlinks)
    blobs/          blobs, in the format of stock peers
    ebt/            clocks of other peers, in the format of stock peers
    peers.json      known peers: a list of addresses
    aliases.json    aliases of members, if it is a room
    invites.json    issued invites, and the remaining uses of each
    dropped.json    ids of messages whose contents the user has deleted here
    branches.sqlite feeds that are merged, and their other branches (ssb.branches.store)
    added           blobs that the user has added, which no limit drops, one a line
    deleted         ids of messages whose blobs have been deleted, one a line
    socket          of the running peer, for commands

One program writes to it at a time. Only its owner can read its contents, even if the directory existed
before, and open to others.
"""

import os
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from secrets import token_bytes
from typing import Any, Final

from ssb import key_file, private
from ssb.applications.pubs import Listed
from ssb.branches.log import Log
from ssb.branches.store import BRANCHES_FILE, MergedFeeds
from ssb.canonical import InvalidJson, Value, parse_bytes, stringify
from ssb.daemon.backlinks import BACKLINKS, Backlinks
from ssb.daemon.stock import stock_logs
from ssb.daemon.views import FILE, TYPES, Views, dispute_ends
from ssb.detached import DELETE, DETACHED, SALT_BYTES, detach
from ssb.graph import DEFAULT_MAX_HOPS, Graph
from ssb.groups.envelope import SUFFIX as BOX2
from ssb.groups.envelope import Key, box, context_of
from ssb.groups.groups import Groups
from ssb.key_file import KeyFileError
from ssb.keys import Identity
from ssb.message import Message
from ssb.replication.storage import OwnBlobs
from ssb.rooms.alias import Alias, InvalidAlias, check
from ssb.store.blobs import DirectoryBlobs
from ssb.store.clocks import ClockDirectory
from ssb.store.contents import Contents
from ssb.store.database import add_words, keep_private, words_of, write_private
from ssb.store.feeds import StoreError, read_log
from ssb.store.mark import Mark
from ssb.store.own_feed import OwnFeed
from ssb.store.sqlite import SqliteFeeds
from ssb.suites.own_key import OwnKey, log_file
from ssb.transport.address import InvalidAddress, PeerAddress, parse_address

SECRET: Final = "secret"
MARK: Final = "secret.mark"
SUITE_SECRET: Final = "secret.ed448"
STORE: Final = "feeds.sqlite"
IMPORTED: Final = "it was imported"
DELETED: Final = "deleted"
ADDED: Final = "added"
_LISTS: Final = ("peers.json", "invites.json", "aliases.json", "dropped.json", DELETED, ADDED)


def is_account(path: Path) -> bool:
    """Whether a directory has an account, or the rest of one that has lost its identity."""
    return any((path / name).exists() for name in (SECRET, MARK, STORE))


def refuse_stock(path: Path) -> None:
    """Raise StoreError for a directory that another program writes to."""
    for log in stock_logs(path):
        raise StoreError(
            f"{path}: another program keeps messages of this identity here ({log}), and two programs with "
            f"one identity fork its feed. Copy it to a directory of its own: `feednet ssb import {path}`"
        )


class Account:
    """State of a peer; one program opens it at a time.

    Args:
        path: of the directory; it and the identity are created if missing.
        hops: how far feeds are replicated: 1 for followed ones, 2 for those followed by these.
        hmac_key: the network's 32-byte key for signatures, if it has one.
        identity: an identity used elsewhere, imported if there is none yet.
        random_bytes: returns a number of random bytes, for keys and salts.

    Raises OSError: KeyFileError or StoreError, with one line. No identity is created where another was lost,
    and the directory of a stock peer is refused.

    Attributes:
        feeds: its store of feeds.
        merged: the feeds whose branches are merged.
        log: the messages of both.
        own_blobs: the blobs that no limit drops.
        own: the feed of the identity.
        own_key: its key of a second suite.
        random_bytes: see above.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        hops: int = DEFAULT_MAX_HOPS,
        hmac_key: bytes | None = None,
        identity: Identity | None = None,
        random_bytes: Callable[[int], bytes] = token_bytes,
    ) -> None:
        self.path = Path(path)
        self.random_bytes = random_bytes
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from None
        refuse_stock(self.path)
        try:
            for name in ("blobs", "ebt"):
                (self.path / name).mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from None
        for name in (SECRET, MARK, SUITE_SECRET, FILE, BACKLINKS, "blobs", "ebt", *_LISTS):
            keep_private(self.path / name)
        keep_private(log_file(self.path / SUITE_SECRET))
        self.feeds = SqliteFeeds(self.path / STORE, hmac_key)
        try:
            self.merged = MergedFeeds(self.feeds, self.path / BRANCHES_FILE, hmac_key)
            self.log = Log(self.merged)
            self.own_blobs = OwnBlobs(self.path / ADDED)
            self.identity, self.own = self._open_own(identity)
            self.own_key = OwnKey(self.path / SUITE_SECRET, self.feeds, self.identity.ref)
        except BaseException:
            self.feeds.close()
            if "merged" in self.__dict__:
                self.merged.close()
            raise
        self.clocks = ClockDirectory(self.path / "ebt")
        self._hops = hops
        self._unordered: set[str] = set()  # merged feeds whose order may have changed

    @cached_property
    def blobs(self) -> DirectoryBlobs:
        """The blobs; opened on first use, as all are counted."""
        return DirectoryBlobs(self.path / "blobs")

    @cached_property
    def contents(self) -> Contents:
        """The contents of detached messages; opened on first use, as all messages that name some are read."""
        contents = Contents(self.blobs, on_deletion=partial(_forget, self.path / DELETED))
        named = (stored.message for stored in read_log(self.feeds, 0, {DETACHED, DELETE}))
        others = (stored.message for stored in self.merged.others())
        contents.restore(chain(named, others), self._dropped(), words_of(self.path / DELETED))
        return contents

    @cached_property
    def views(self) -> Views:
        """Views computed from messages; opened on first use."""
        views = Views(self.path / FILE, self.feeds, self.identity.ref, self._hops, lambda: self.merged.feeds)
        for stored in self.merged.others():
            views.add(stored.message)
        for feed in filter(self.merged.is_forked, self.merged.feeds):
            views.restate(feed, self.merged.tree(feed).view())
        dispute_ends(views.graph, self.merged)
        views.graph.take_changes()
        views.graph.take_restated()
        return views

    @cached_property
    def backlinks(self) -> Backlinks:
        """The index of links between messages; opened on first use."""
        return Backlinks(self.path / BACKLINKS, self.feeds, self.merged)

    @property
    def graph(self) -> Graph:
        """The graph of follows and blocks."""
        return self.views.graph

    def pubs(self) -> list[Listed]:
        """Return the pubs that replicated logs name, without this peer."""
        listed = self.views.pubs.listed(self.graph.replicated())
        return [pub for pub in listed if pub.address.peer != self.identity.ref]

    @cached_property
    def groups(self) -> Groups:
        """Private messages of box2, and the groups in them; on first use, all of these are read."""
        groups = Groups(self.identity)
        for stored in chain(read_log(self.feeds, 0, {None}), self.merged.others()):
            if BOX2.encode() in stored.text:
                groups.add(stored.message)
        return groups

    def comembers(self) -> Set[str]:
        """The members of the user's groups, whose feeds are replicated, too, unless the user blocks them.

        See Groups.comembers(): a stranger's groups count once the user has written in them.
        """
        me, graph = self.identity.ref, self.graph
        found = self.groups.comembers(lambda adder: graph.is_following(me, adder))
        return {feed for feed in found if not graph.is_blocked(feed)}

    def beside(self) -> Set[str]:
        """The feeds that are replicated beside those of the graph: members of groups, and feeds that are
        invited to be devices of replicated ones; none that the user blocks.
        """
        graph = self.graph
        invited = self.views.fusions.invited(graph.hops())
        return self.comembers() | {feed for feed in invited if not graph.is_blocked(feed)}

    def _open_own(self, identity: Identity | None) -> tuple[Identity, OwnFeed]:
        """Read the identity; or create or import it, where none has been lost."""
        secret, mark = self.path / SECRET, self.path / MARK
        if secret.exists():
            found = key_file.read(secret)
            if identity is not None and identity.ref != found.ref:
                raise KeyFileError(
                    f"{secret}: holds the identity {found.ref}, not {identity.ref}; "
                    "give that one a directory of its own (--path)"
                )
            return found, OwnFeed(self.feeds, found, mark)
        if identity is None:
            seen = Mark(mark, self.feeds.lock_path).read()
            if self.feeds.end or (seen is not None and seen.number):
                whose = "a store of messages" if seen is None else f"the store of {seen.feed}"
                raise KeyFileError(
                    f"{secret}: there is no such file, but {whose} is here. Put the identity back from a "
                    "backup, or move the directory away to begin as somebody else"
                )
        made = identity or Identity.from_seed(self.random_bytes(32))
        # The mark comes first: a process killed here leaves no identity, and the next one creates it.
        doubt = "" if identity is None else IMPORTED
        own = OwnFeed(self.feeds, made, mark, is_new=identity is None, doubt=doubt)
        return key_file.create(secret, made), own

    def close(self) -> None:
        """Close all files."""
        if "views" in self.__dict__:
            self.views.close()
        if "backlinks" in self.__dict__:
            self.backlinks.close()
        self.merged.close()
        self.feeds.close()
        if "blobs" in self.__dict__:
            self.blobs.close()

    def update_views(self, message: Message) -> None:
        """Add a message to the views and groups, if they are open; restate() has to follow."""
        if "views" in self.__dict__:
            self.views.add(message)
            feed, content = message.author, message.content
            kind = content.get("type") if isinstance(content, dict) else None
            if self.merged.is_forked(feed):
                tree = self.merged.tree(feed)
                if kind in TYPES or tree.names(message.id) or tree.is_overgrown:
                    self._unordered.add(feed)
        if "groups" in self.__dict__:
            self.groups.add(message)

    def split(self, feed: str) -> None:
        """Merge the branches of a feed no more: what only the deleted ones have said holds no more."""
        was_forked = self.merged.is_forked(feed)
        self.merged.split(feed)
        if was_forked:
            served = self.feeds.after(feed, 0, self.feeds.last(feed))
            self.views.restate(feed, (stored.message for stored in served))
            dispute_ends(self.graph, self.merged)
            self.views.discard()

    def restate(self) -> bool:
        """Let what merged feeds say hold in causal order, and what disputed ends say not; return whether that
        may change anything.
        """
        changed, self._unordered = self._unordered, set()
        for feed in sorted(changed):
            self.views.restate(feed, self.merged.tree(feed).view())
        is_disputed = "views" in self.__dict__ and dispute_ends(self.graph, self.merged)
        return is_disputed or bool(changed)

    def why(self) -> str:
        """Return why nothing can be published now, with the remedies; "" if messages can be."""
        return self.own.why() if self.own.doubt else self.own_key.why()

    def publish(
        self, content: Mapping[str, Any] | str, now_ms: float, recipients: list[str] | None = None
    ) -> Message:
        """Write a message, a private one if there are recipients; raise InvalidMessage and StoreError.

        UnsureFeed, a StoreError, is raised as long as later messages may be elsewhere. A second key
        countersigns the message; see OwnKey for what it refuses.
        """
        body = content
        if recipients and not isinstance(content, str):
            body = private.box(content, [*recipients, self.identity.ref])
        self.own.check()
        body = self.own_key.countersigned(body, now_ms)
        message = self.own.publish(body, now_ms, self.own_key.record, self.merged.publish)
        self.update_views(message)
        self.restate()
        if "contents" in self.__dict__:
            self.contents.add(message)
        return message

    def detach(self, content: Mapping[str, Any]) -> dict[str, Value]:
        """Store a content as a blob, and return the content of a message that names it; raise InvalidMessage,
        RefusedBlob and StoreError.
        """
        named, blob = detach(self.identity.ref, content, self.random_bytes(SALT_BYTES))
        self.blobs.add(blob)
        return named

    def drop(self, message: str) -> None:
        """Delete the content of a message here, for good. Raises KeyError if it is not detached."""
        self.contents.drop(message)
        dropped = self._dropped()
        if message not in dropped:
            self._write_json("dropped.json", [*dropped, message])

    def _dropped(self) -> list[str]:
        dropped = self._read_json("dropped.json")
        return [each for each in dropped if isinstance(each, str)] if isinstance(dropped, list) else []

    def sealed(self, content: Mapping[str, Any], now_ms: float, keys: Sequence[Key]) -> str:
        """Return a content in box2 for the holders of some keys, to be published next; raise as publish()."""
        self.own.check()
        last = self.merged.resume(self.identity.ref, now_ms)
        context = context_of(self.identity.ref, None if last is None else last.id)
        return box(content, context, keys, self.random_bytes)

    def open_private(self, message: Message) -> Mapping[str, Any] | None:
        """Return the plaintext of a message; None if it is none that the user can open."""
        if isinstance(message.content, str) and message.content.endswith(BOX2):
            found = self.groups.opened(message.id)
            return None if found is None else found.content
        return private.unbox(message.content, self.identity)

    def known_peers(self) -> list[PeerAddress]:
        """Return the peers with known addresses; invalid ones are skipped."""
        addresses = self._read_json("peers.json")
        found = []
        for text in addresses if isinstance(addresses, list) else []:
            try:
                found.append(parse_address(str(text)))
            except InvalidAddress:
                continue
        return found

    def remember(self, address: PeerAddress) -> None:
        """Add a known peer, or change its address."""
        others = [known for known in self.known_peers() if known.peer != address.peer]
        self._write_json("peers.json", [str(known) for known in [*others, address]])

    def invites(self) -> dict[str, int]:
        """Return the keys of issued invites, and the remaining uses of each; 0 if it is used up."""
        invites = self._read_json("invites.json")
        found = dict[str, int]()
        for key, uses in invites.items() if isinstance(invites, dict) else ():
            match uses:
                case bool():
                    continue
                case int():
                    found[key] = uses
                case [int() as left, str() as feed]:  # this peer has failed at this use
                    found[key] = left + (not self.graph.is_following(self.identity.ref, feed))
        return found

    def set_invites(self, invites: Mapping[str, int], using: tuple[str, str] | None = None) -> None:
        """Replace the issued invites; `using`: the key of one, and the feed that is followed by it next.

        This use counts if the feed is followed when the file is read, even if this peer fails meanwhile.
        """
        uses: dict[str, Value] = {**invites}
        if using is not None:
            key, feed = using
            uses[key] = [invites[key] - 1, feed]
        self._write_json("invites.json", uses)

    def aliases(self) -> dict[str, Alias]:
        """Return the aliases of this peer as a room; those that their owners have not signed are skipped."""
        stored = self._read_json("aliases.json")
        found = {}
        for fields in stored if isinstance(stored, list) else []:
            with suppress(InvalidAlias, TypeError, AttributeError):
                alias = check(Alias(*fields), self.identity.ref)
                found[alias.name.lower()] = alias
        return found

    def set_aliases(self, aliases: Mapping[str, Alias]) -> None:
        """Replace the aliases of this peer as a room."""
        self._write_json("aliases.json", [[*alias] for alias in aliases.values()])

    def _read_json(self, name: str) -> Value:
        try:
            return parse_bytes((self.path / name).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.path / name}: {error.strerror}") from None
        except InvalidJson as error:
            raise StoreError(f"{self.path / name}: damaged: {error}") from None

    def _write_json(self, name: str, value: Value) -> None:
        write_private(self.path / name, f"{stringify(value)}\n".encode())


def _forget(path: Path, word: str) -> None:
    """Append to the words of a file. If its end is lost, a blob is fetched and deleted once more."""
    with suppress(StoreError):
        add_words(path, word)
