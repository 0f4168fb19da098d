"""One strategy, asked directly: what it decides, noted in the entry as the forwarder does."""

from collections.abc import Sequence
from random import Random

from base.units import MS
from forwarder.strategies import parse
from forwarder.strategies.strategy import Strategy
from forwarder.tables.face import Face
from forwarder.tables.fib import Fib, NextHop
from forwarder.tables.pit import InRecord, OutRecord, PitEntry, Tags
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, parse_data

LOCAL = 9


class FakeNode:
    """Network faces 1 to 4, an application behind face 9; routes for /a through 2, 3 and 4."""

    def __init__(self, seed: int = 1) -> None:
        self.faces = {n: Face(n, local=n == LOCAL) for n in (1, 2, 3, 4, LOCAL)}
        self.fib = Fib()
        for cost, face in enumerate((2, 3, 4)):
            self.fib.add(from_uri("/a"), face, cost)
        self.rng = Random(seed)
        self.log: list[str] = []
        self.announcements: dict[bytes, bytes] = {}

    def neighbours(self, entry: PitEntry, face: int) -> list[int]:
        return [out.number for out in self.faces.values() if not out.is_local and out.number != face]

    def announce(self, face: int, announcement: bytes, now: int) -> None:
        self.log.append(f"announce {face} {announcement.decode()}")

    def withdraw(self, face: int, name: bytes, now: int) -> None:
        self.log.append(f"withdraw {face}")

    def find_announcement(self, name: bytes, now: int) -> bytes | None:
        return next((found for prefix, found in self.announcements.items() if name.startswith(prefix)), None)


class Asked:
    """A strategy, with pending Interests by name."""

    def __init__(self, text: str, seed: int = 1) -> None:
        self.node = FakeNode(seed)
        chosen, parameters = parse(text)
        self.strategy: Strategy = chosen(self.node, parameters)
        self.entries: dict[str, PitEntry] = {}
        self.now = 0
        self.probed: list[int] = []

    def wait(self, ms: float) -> None:
        self.now += round(ms * MS)

    def interest(
        self, uri: str, face: int = 1, *, lifetime_ms: int = 4000, non_discovery: bool = False
    ) -> Sequence[int] | None:
        """Return where it goes; where a copy went besides is in `probed`."""
        name = from_uri(uri)
        entry = self.entries.setdefault(uri, PitEntry((name, False, False)))
        expiry = self.now + lifetime_ms * MS
        entry.set_in_record(InRecord(face, 1, expiry, None, b""))
        entry.tags = Tags(non_discovery=True) if non_discovery else None
        self.probed = []
        hops = [hop for hop in self.hops(name) if hop.face != face]
        faces = self.strategy.after_interest(entry, face, hops, self.now)
        if faces is None:
            del self.entries[uri]
            return None
        for out in faces:
            entry.set_out_record(OutRecord(out, 1, self.now, expiry))
        if faces:
            self.probed = list(self.strategy.probe(entry, face, hops, self.now))
            for out in self.probed:
                entry.set_out_record(OutRecord(out, 2, self.now, expiry))
        return list(faces)

    def hops(self, name: bytes) -> tuple[NextHop, ...]:
        return self.node.fib.lookup(name)

    def data(self, uri: str, face: int, announcement: bytes | None = None) -> int:
        """Return how long the entry stays, ms; if it does not, it is gone."""
        entry = self.entries[uri]
        if announcement is not None:
            entry.tags = Tags(announcement=announcement)
        data = parse_data(make_data(from_uri(uri), b""))
        stay = self.strategy.after_data(entry, face, data, self.now)
        entry.in_records = []
        entry.drop_out_record(face)
        if stay <= 0:
            del self.entries[uri]
        return stay // MS

    def nack(self, uri: str, face: int, reason: int = 150) -> Sequence[int]:
        entry = self.entries[uri]
        record = entry.out_record(face)
        assert record is not None
        record.nacked = reason
        return list(self.strategy.after_nack(entry, face, reason, self.hops(entry.name), self.now))

    def expire(self, uri: str) -> None:
        """What the forwarder does when a lifetime is over."""
        self.strategy.after_expiry(self.entries.pop(uri), self.now)
