"""The PIT against a list of entries, of which the specification says whether a Data packet satisfies them."""

import hashlib
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from base.units import MS
from forwarder.tables.pit import InRecord, Key, OutRecord, Pit, PitEntry, Tags
from forwarder.wire.name import component, components, ends_with_digest, from_uri
from forwarder.wire.packet import Data, Interest, make_data, make_interest, parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket


def interest(name: bytes, can_be_prefix: bool = False, must_be_fresh: bool = False) -> Interest:
    wire = make_interest(name, nonce=1, can_be_prefix=can_be_prefix, must_be_fresh=must_be_fresh)
    return parse_interest(wire)


def packet(name: bytes, content: bytes = b"") -> Data:
    return parse_data(make_data(name, content))


def digest_of(data: Data) -> bytes:
    return component(1, hashlib.sha256(data.wire).digest())


A, B = component(8, b"a"), component(8, b"b")
DATA = [packet(name, content) for name in (A, A + B, A + B + A, B, b"") for content in (b"", b"other")]
# A component of the generic type whose end looks like a digest component is none.
DISGUISED = [component(8, b"x" + digest_of(data)) for data in DATA[:2]]
NAMES = [
    *(data.name for data in DATA[:8]),
    *(data.name + digest_of(data) for data in DATA),
    *DISGUISED,
    A + digest_of(DATA[0]) + B,
    A + digest_of(DATA[2]),
]


def satisfies(data: Data, key: Key) -> bool:
    """NDN packet format 0.3, "CanBePrefix": what an Interest's name is to the Data's."""
    name, can_be_prefix, _ = key
    wanted = components(name)
    exact = components(data.name)
    full = [*exact, (1, hashlib.sha256(data.wire).digest())]
    if can_be_prefix:
        return full[: len(wanted)] == wanted
    return wanted in (exact, full)


class PitAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pit = Pit()
        self.entries: dict[Key, PitEntry] = {}
        self.deadlines: dict[Key, int] = {}
        self.waiting: dict[Key, set[int]] = {}  # faces; empty once satisfied

    @rule(
        name=st.sampled_from(NAMES),
        can_be_prefix=st.booleans(),
        must_be_fresh=st.booleans(),
        expiry=st.integers(0, 5 * MS),
        face=st.integers(1, 3),
    )
    def pend(self, name: bytes, can_be_prefix: bool, must_be_fresh: bool, expiry: int, face: int) -> None:
        wanted = interest(name, can_be_prefix, must_be_fresh)
        key = (name, can_be_prefix, must_be_fresh)
        entry = self.pit.find(wanted)
        assert entry is self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = self.pit.insert(wanted)
            assert entry.key == key
            assert (entry.notes, entry.tags, entry.strategy, entry.passed) == (None, None, None, None)
            self.waiting[key] = set()
        entry.set_in_record(came(face, expiry))
        self.waiting[key].add(face)
        self.pit.extend(entry, expiry)
        self.deadlines[key] = max(self.deadlines.get(key, -1), expiry)
        assert entry.deadline == self.deadlines[key]

    @rule(data=st.sampled_from(DATA), remove=st.booleans())
    def match(self, data: Data, remove: bool) -> None:
        found = self.pit.match(data)
        assert len(found) == len(set(found))
        assert {entry.key for entry in found} == {key for key in self.entries if satisfies(data, key)}
        for entry in found:
            if remove:
                self.pit.remove(entry)
                del self.entries[entry.key], self.deadlines[entry.key]

    @precondition(lambda self: self.entries)
    @rule(draw=st.data(), deadline=st.integers(0, 5 * MS))
    def satisfy(self, draw: st.DataObject, deadline: int) -> None:
        """Nobody waits any more; the entry stays for its strategy, for longer or shorter than else."""
        key = draw.draw(st.sampled_from(sorted(self.entries)))
        entry = self.entries[key]
        entry.in_records = []
        self.waiting[key] = set()
        entry.notes = "learnt"
        entry.tags = Tags(announcement=b"a")
        self.pit.expire_at(entry, deadline)
        self.deadlines[key] = deadline

    @precondition(lambda self: self.entries)
    @rule(draw=st.data())
    def remove(self, draw: st.DataObject) -> None:
        entry = self.entries.pop(draw.draw(st.sampled_from(sorted(self.entries))))
        del self.deadlines[entry.key]
        self.pit.remove(entry)

    @rule(now=st.integers(0, 5 * MS))
    def expire(self, now: int) -> None:
        due = {key for key, deadline in self.deadlines.items() if deadline <= now}
        assert {entry.key for entry in self.pit.expire(now)} == due
        for key in due:
            del self.entries[key], self.deadlines[key]

    @invariant()
    def same_entries(self) -> None:
        assert len(self.pit) == len(self.entries)
        assert set(self.pit) == set(self.entries.values())
        for key, entry in self.entries.items():
            assert entry.deadline == self.deadlines[key]
            assert {record.face for record in entry.in_records} == self.waiting[key]
            assert entry.is_satisfied == (not self.waiting[key])
        assert self.pit.timers.next_deadline() == min(self.deadlines.values(), default=None)
        # These decide what a Data packet is looked up by, so they must come back to 0.
        prefixes = Counter(len(name) for name, can_be_prefix, _ in self.entries if can_be_prefix)
        assert self.pit._prefixes._counts == prefixes
        assert self.pit._digests == sum(ends_with_digest(name) for name, _, _ in self.entries)


TestPitAgainstList = PitAgainstList.TestCase
TestPitAgainstList.settings = settings(max_examples=80, stateful_step_count=40)


def pending(*wanted: Interest) -> Pit:
    pit = Pit()
    for one in wanted:
        pit.extend(pit.insert(one), 0)
    return pit


def keys(entries: list[PitEntry]) -> set[Key]:
    return {entry.key for entry in entries}


def test_data_satisfies_all_that_it_answers() -> None:
    data = packet(from_uri("/a/b"))
    full = data.name + digest_of(data)
    pit = pending(
        interest(from_uri("/a/b")),
        interest(from_uri("/a/b"), must_be_fresh=True),
        interest(from_uri("/a"), can_be_prefix=True),
        interest(from_uri("/a/b"), can_be_prefix=True, must_be_fresh=True),
        interest(full),
        interest(full, can_be_prefix=True),
        interest(from_uri("/a")),
        interest(from_uri("/a/b/c"), can_be_prefix=True),
        interest(data.name + component(1, bytes(32))),
    )
    assert keys(pit.match(data)) == {
        (data.name, False, False),
        (data.name, False, True),
        (from_uri("/a"), True, False),
        (data.name, True, True),
        (full, False, False),
        (full, True, False),
    }


def test_a_disguised_digest_does_not_let_a_cut_name_in() -> None:
    """The Data's name claims 36 bytes and has 2; with the digest behind it, it would be the Interest's."""
    head = b"\x08\x24ab"
    wire = make_data(b"", b"").replace(b"\x07\x00", b"\x07\x04" + head, 1)
    wire = wire[:1] + bytes((wire[1] + 4,)) + wire[2:]
    data = parse_data(wire)
    assert data.name == head
    pit = pending(interest(head + digest_of(data)))
    with pytest.raises(MalformedPacket):
        pit.match(data)


def test_an_entry_can_expire_at_time_zero() -> None:
    """Virtual time begins at 0, and an InterestLifetime may be 0."""
    pit = pending(interest(A))
    (entry,) = pit
    assert entry.deadline == 0
    assert pit.timers.next_deadline() == 0
    assert pit.expire(0) == [entry]
    assert len(pit) == 0


def test_an_entry_that_would_expire_at_time_zero_can_be_extended() -> None:
    pit = pending(interest(A))
    (entry,) = pit
    pit.extend(entry, 5 * MS)
    assert pit.expire(5 * MS - 1) == []
    assert pit.expire(5 * MS) == [entry]


def test_a_shorter_lifetime_does_not_shorten() -> None:
    pit = pending(interest(A))
    (entry,) = pit
    pit.extend(entry, 9)
    pit.extend(entry, 5)
    assert entry.deadline == 9
    assert pit.expire(8) == []
    assert pit.expire(9) == [entry]


def entry_with(*records: InRecord | OutRecord) -> PitEntry:
    entry = PitEntry((A, False, False))
    for record in records:
        if isinstance(record, InRecord):
            entry.set_in_record(record)
        else:
            entry.set_out_record(record)
    return entry


def came(face: int, nonce: int) -> InRecord:
    return InRecord(face, nonce, 9, None, b"")


def test_one_record_a_face() -> None:
    entry = entry_with(came(1, 10), came(2, 20), came(1, 11), OutRecord(3, 10, 0, 9), OutRecord(3, 20, 5, 9))
    assert sorted((r.face, r.nonce) for r in entry.in_records) == [(1, 11), (2, 20)]
    assert [(r.face, r.nonce, r.sent, r.nacked) for r in entry.out_records] == [(3, 20, 5, None)]
    entry.drop_in_record(1)
    entry.drop_out_record(3)
    assert [r.face for r in entry.in_records] == [2]
    assert entry.out_records == []


def test_pending_until_refused_or_expired_everywhere() -> None:
    entry = entry_with(came(1, 10))
    assert not entry.is_pending(0)
    entry.set_out_record(OutRecord(3, 10, 0, 9))
    entry.set_out_record(OutRecord(4, 10, 2, 11))
    assert entry.last_sent() == 2
    assert [entry.is_pending(now) for now in (0, 8, 9, 10, 11)] == [True, True, True, True, False]
    entry.out_records[1].nacked = 150
    assert [entry.is_pending(now) for now in (8, 9)] == [True, False]
    entry.set_out_record(OutRecord(4, 12, 12, 20))
    assert entry.is_pending(12)


@pytest.mark.parametrize(
    ("face", "nonce", "loop"),
    [
        (1, 10, False),  # the link's duplicate, or the consumer's repetition, though it has been sent on
        (2, 10, True),  # came from face 1
        (3, 10, True),  # was sent to face 3 and is back
        (4, 10, True),  # the same, by another way
        (4, 12, True),  # a nonce that only the out-record remembers
        (1, 12, True),
        (1, 99, False),
        (4, 99, False),
    ],
)
def test_loop(face: int, nonce: int, loop: bool) -> None:
    entry = entry_with(came(1, 10), OutRecord(3, 10, 0, 9), OutRecord(5, 12, 0, 9))
    assert entry.is_loop(face, nonce) == loop


def test_one_that_comes_time_and_again_from_one_face_goes_round_a_ring() -> None:
    entry = entry_with(came(1, 10), OutRecord(3, 10, 0, 9))
    for _ in range(4):
        assert not entry.is_loop(1, 10)
        entry.set_in_record(came(1, 10))
    assert entry.is_loop(1, 10)
    assert not entry.is_loop(1, 11)
    entry.set_in_record(came(1, 11))
    assert not entry.is_loop(1, 11)
