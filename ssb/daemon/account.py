"""A user's account: an identity and all that its peer keeps, in one directory.

    secret          the identity (ssb.key_file)
    feeds.sqlite    messages (ssb.store.sqlite)
    blobs/          blobs, as stock peers keep them
    ebt/            how far other peers said they were, as stock peers keep it
    peers.json      peers that are known: a list of addresses
    invites.json    invites that were given, and how often each may still be used
    socket          of the running peer, for commands

One program writes to it at a time. Nobody but its owner can read what is in it, even if the directory was
there before, and open to others.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ssb import key_file, private
from ssb.canonical import InvalidJson, Value, parse, stringify
from ssb.graph import DEFAULT_MAX_HOPS, Graph
from ssb.message import Message
from ssb.store.blobs import DirectoryBlobs
from ssb.store.clocks import ClockDirectory
from ssb.store.database import keep_private, make_private
from ssb.store.feeds import Stored, StoreError, read_log
from ssb.store.sqlite import SqliteFeeds
from ssb.transport.address import InvalidAddress, PeerAddress, parse_address

CONTACT: Final = "contact"


class Account:
    """What a peer knows; opened by one program at a time.

    Args:
        path: of the directory; it and the identity are made if they are not there.
        hops: how far feeds are replicated: 1 for those that are followed, 2 for those that these follow.
        hmac_key: the network's 32-byte key for signatures, if it has one.

    Raises OSError: KeyFileError or StoreError, with one line.
    """

    def __init__(
        self, path: str | os.PathLike[str], hops: int = DEFAULT_MAX_HOPS, hmac_key: bytes | None = None
    ) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            for name in ("blobs", "ebt"):
                (self.path / name).mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from None
        for name in ("secret", "blobs", "ebt", "peers.json", "invites.json"):
            keep_private(self.path / name)
        secret = self.path / "secret"
        self.identity = key_file.read(secret) if secret.exists() else key_file.create(secret)
        self.feeds = SqliteFeeds(self.path / "feeds.sqlite", hmac_key)
        self.blobs = DirectoryBlobs(self.path / "blobs")
        self.clocks = ClockDirectory(self.path / "ebt")
        self.graph = Graph(self.identity.ref, hops)
        self.blocks: set[tuple[str, str]] = set()
        for stored in read_log(self.feeds, 0, {CONTACT}):
            self.read(stored.message)
        self.graph.take_changes()

    def close(self) -> None:
        """Let go of the directory."""
        self.feeds.close()
        self.blobs.close()

    def read(self, message: Message) -> None:
        """Take in what a message says about whom its author follows and blocks."""
        content = message.content
        if not isinstance(content, dict) or content.get("type") != CONTACT:
            return
        self.graph.read(message)
        contact = content.get("contact")
        if isinstance(contact, str):
            pair = (message.author, contact)
            if self.graph.is_blocked(contact, by=message.author):
                self.blocks.add(pair)
            else:
                self.blocks.discard(pair)

    def publish(
        self, content: Mapping[str, Any], now_ms: float, recipients: list[str] | None = None
    ) -> Message:
        """Write a message, a private one if there are recipients; raise InvalidMessage and StoreError."""
        body = private.box(content, [*recipients, self.identity.ref]) if recipients else content
        message = self.feeds.publish(self.identity, body, now_ms)
        self.read(message)
        return message

    def messages(self, feed: str | None, limit: int | None, kind: str | None) -> Iterator[Stored]:
        """Yield messages as they came: of one feed or all, of one type or all, the last `limit`."""
        found = (
            stored
            for stored in read_log(self.feeds, 0, None if kind is None else {kind})
            if feed is None or stored.message.author == feed
        )
        if limit is None:
            yield from found
        else:
            yield from list(found)[-limit:] if limit else []

    def known_peers(self) -> list[PeerAddress]:
        """Return the peers that are known by address; a damaged file counts as none."""
        addresses = self._read_json("peers.json")
        found = []
        for text in addresses if isinstance(addresses, list) else []:
            try:
                found.append(parse_address(str(text)))
            except InvalidAddress:
                continue
        return found

    def remember(self, address: PeerAddress) -> None:
        """Add a peer to those that are known, or change its address."""
        others = [known for known in self.known_peers() if known.peer != address.peer]
        self._write_json("peers.json", [str(known) for known in [*others, address]])

    def invites(self) -> dict[str, int]:
        """Return the keys of invites that were given, and how often each may still be used."""
        invites = self._read_json("invites.json")
        if not isinstance(invites, dict):
            return {}
        return {peer: uses for peer, uses in invites.items() if type(uses) is int}

    def set_invites(self, invites: Mapping[str, int]) -> None:
        """Replace the invites that were given."""
        self._write_json("invites.json", dict(invites))

    def _read_json(self, name: str) -> Value:
        try:
            return parse((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.path / name}: {error.strerror}") from None
        except (InvalidJson, UnicodeDecodeError) as error:
            raise StoreError(f"{self.path / name}: damaged: {error}") from None

    def _write_json(self, name: str, value: Value) -> None:
        path, partial = self.path / name, self.path / f".{name}"
        try:
            partial.unlink(missing_ok=True)
            make_private(partial)
            partial.write_text(stringify(value) + "\n", encoding="utf-8")
            partial.replace(path)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from None
