"""A chat without a provider: a broadcast to all nodes in reach.

Everybody's root feed is in one open set (`ssb.tiny.goset.COMMON`). The last entry shown of each feed is
recorded afterwards: if the program is killed, a text is shown again rather than never.
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
HELP: Final = "type a text, or /name NAME, /who, /save FILE, /load FILE, /help, /quit"


class Hall:
    """The Desk of a chat's members, and their messages. Times are wall-clock, ns."""

    def __init__(self, account: Account, node: Node, now: int) -> None:
        self.node = node
        self._account = account
        self._store = account.store
        self._root = account.root.public_key
        self._names = Names(account.store)
        self._shown: dict[bytes, int] = {}  # feed -> last entry that `news` has returned
        self._unrecorded: set[bytes] = set()  # feeds where this is not recorded yet
        node.join_open([self._root], now)

    def greeting(self) -> list[str]:
        return [f"you are {shown(self._root)}; {HELP}"]

    def execute(self, line: str, now: int) -> list[str]:
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
            case "/help":
                return [HELP]
            case _ if line.startswith("/"):
                raise ValueError(f"{command}: unknown; {HELP}")
            case _ if line.strip():
                self._publish(Text(line), now)
        return []

    def news(self, now: int) -> Iterator[str]:
        """Yield the texts of others since the last confirmation."""
        for key in self.node.keys(COMMON):
            if key == self._root:
                continue
            if key not in self._shown:
                recorded = self._store.get(_record(key))
                self._shown[key] = recorded if isinstance(recorded, int) else 0
            for entry in self._store.read(key, self._shown[key], _PAGE):
                self._shown[key] = entry.sequence
                self._unrecorded.add(key)
                text = read_text(entry.content)
                if text is not None and text.is_name:
                    self._names.set(key, text.text)
                elif text is not None:
                    yield f"{self._names.of(key)}: {printable(text.text)}"

    def confirm(self, now: int) -> None:
        """Record that the news was shown."""
        if self._unrecorded:
            with self._store.transaction():
                for key in self._unrecorded:
                    self._store.put(_record(key), self._shown[key])
            self._unrecorded.clear()

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
