"""A chat without a provider: all who are in reach say everything to everybody.

Everybody's root feed is in one open set (`ssb.tiny.goset.COMMON`). What was shown of a feed is a record, so
that a text is shown again rather than never when the program is killed.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from base.units import SECOND
from ssb.tiny.daemon import carried
from ssb.tiny.daemon.account import Account, Names, shown
from ssb.tiny.daemon.texts import Text, printable, read_text
from ssb.tiny.goset import COMMON
from ssb.tiny.node import CHECKSUM, Node

_PAGE: Final = 100
HELP: Final = "type a text, or /name NAME, /who, /save FILE, /load FILE, /quit"


class Hall:
    """Members of a chat, and their messages. Times are wall-clock, ns."""

    def __init__(self, account: Account, node: Node, now: int) -> None:
        self.node = node
        self._account = account
        self._store = account.store
        self._root = account.root.public_key
        self._names = Names(account.store)
        self._told: dict[bytes, int] = {}  # feed -> the last entry that `news` has told of
        self._unnoted: set[bytes] = set()  # feeds of which this is not recorded yet
        node.join_open([self._root], now)

    def greeting(self) -> list[str]:
        """Return what is shown first."""
        return [f"you are {shown(self._root)}; {HELP}"]

    def typed(self, line: str, now: int) -> list[str]:
        """Do what a line says; return what to show. Raises ValueError, with one line."""
        command, _, rest = line.partition(" ")
        match command:
            case "/name" if rest.strip():
                self._publish(Text(rest.strip(), is_name=True), now)
            case "/who":
                return [
                    f"{self._names.of(key)}  {shown(key)}{'  (you)' if key == self._root else ''}"
                    for key in self.node.keys(COMMON)
                ]
            case "/save" | "/load" if rest.strip():
                path = Path(rest.strip()).expanduser()
                try:
                    return [self._save(path) if command == "/save" else self._load(path, now)]
                except (OSError, carried.MalformedFile) as error:
                    why = error.strerror if isinstance(error, OSError) else error
                    raise ValueError(f"{path}: {why}") from None
            case _ if line.startswith("/"):
                raise ValueError(f"{command}: unknown; {HELP}")
            case _ if line.strip():
                self._publish(Text(line), now)
        return []

    def news(self, now: int) -> Iterator[str]:
        """Yield what others have said since it was last confirmed."""
        for key in self.node.keys(COMMON):
            if key == self._root:
                continue
            if key not in self._told:
                recorded = self._store.get(_record(key))
                self._told[key] = recorded if isinstance(recorded, int) else 0
            for entry in self._store.read(key, self._told[key], _PAGE):
                self._told[key] = entry.sequence
                self._unnoted.add(key)
                text = read_text(entry.content)
                if text is not None and text.is_name:
                    self._names.call(key, text.text)
                elif text is not None:
                    yield f"{self._names.of(key)}: {printable(text.text)}"

    def confirm(self, now: int) -> None:
        """Note that the news was shown."""
        if self._unnoted:
            with self._store.transaction():
                for key in self._unnoted:
                    self._store.put(_record(key), self._told[key])
            self._unnoted.clear()

    def _save(self, path: Path) -> str:
        packets = carried.packets_of(self._store, self.node.keys(COMMON))
        size = carried.save(packets, path)
        return f"{len(packets)} packets, {size:,} bytes: who gets the file can /load it"

    def _load(self, path: Path, now: int) -> str:
        packets, taken = carried.load(path), self.node.taken
        before = taken["entry"] + taken["chunk"]
        for packet in packets:
            self.node.receive(1, packet + zlib.crc32(packet).to_bytes(CHECKSUM), None, now)
        return f"{len(packets)} packets, {taken['entry'] + taken['chunk'] - before} of them new"

    def _publish(self, text: Text, now: int) -> None:
        self.node.publish(self._root, text.encode(now // SECOND), now)


def _record(key: bytes) -> str:
    return f"shown {key.hex()}"
