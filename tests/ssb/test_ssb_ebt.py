"""EBT: in the end all who want a feed have it, whatever happened to connections; and trees cost little."""

import json
from collections import Counter
from collections.abc import Iterable
from functools import partial
from random import Random

import pytest
from fresh_seeds import first_fresh_seed
from hypothesis import given
from hypothesis import strategies as st

from base.units import MS, SECOND
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.message import ForkedFeed, Message
from ssb.replication.ebt import Ebt
from ssb.replication.history import HistorySource
from ssb.replication.replication import ProtocolError
from ssb.replication.session import DEFAULT_LIMITS, NOT_WANTED, Limits, Note
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from testbed.ladder.swarms.swarm import Swarm

FEEDS = [generate_feed(Random(seed), 30, Identity.from_seed(bytes([seed + 1]) * 32)) for seed in range(5)]
KEYS = [messages[0].author for messages in FEEDS]
DELAY = 5 * MS


def connect_all(swarm: Swarm, random: Random) -> None:
    """Connect the peers in a random tree."""
    for place in range(1, len(swarm.peers)):
        swarm.connect(place, random.randrange(place), DELAY)


def want(swarm: Swarm, place: int, *feeds: str) -> None:
    swarm.peers[place].replication.want_all(feeds, swarm.now)
    swarm.touch(place)


def sent(swarm: Swarm) -> list[tuple[int, int]]:
    return [(peer.sent.messages, peer.sent.notes) for peer in swarm.peers]


def opened(limits: Limits = DEFAULT_LIMITS, held: int = 0) -> Ebt:
    """A peer that wants the first feed, has some of it, and was called by another."""
    feeds = MemoryFeeds()
    feeds.append(FEEDS[0][:held], 0.0)
    ebt = Ebt(feeds, MemoryClocks(), [KEYS[0]], limits)
    ebt.open(1, "@other", is_caller=False, now=0)
    return ebt


def notes_of(bodies: Iterable[bytes]) -> dict[str, Note]:
    return {
        feed: Note.read(number)
        for body in bodies
        if b'"signature"' not in body
        for feed, number in json.loads(body).items()
    }


@pytest.mark.parametrize(("kept", "is_written"), [({KEYS[0]: -1}, True), ({KEYS[0]: 3}, False), ({}, False)])
def test_only_a_kept_clock_that_denies_a_wish_is_mended_at_once(
    kept: dict[str, int], is_written: bool
) -> None:
    """A peer that is killed would else not ask. All else is kept when the connection ends, in one go."""
    clocks = MemoryClocks({"@other": dict(kept)})
    ebt = Ebt(MemoryFeeds(), clocks, [KEYS[0]])
    ebt.open(1, "@other", is_caller=False, now=0)
    for note in (NOT_WANTED, Note(4, receives=True)):
        ebt.receive(1, [json.dumps({KEYS[0]: note.number}).encode()], 0, 0.0)
    assert clocks.remote_clock("@other") == ({KEYS[0]: 4} if is_written else kept)


@given(st.none() | st.integers(0, 2**50), st.booleans())
def test_a_note_is_read_as_it_was_written(sequence: int | None, receives: bool) -> None:
    note = Note(sequence, receives and sequence is not None)
    assert Note.read(note.number) == note


@pytest.mark.parametrize("number", [-2, 1.5, "3", None, True])
def test_what_is_no_note_is_refused(number: object) -> None:
    with pytest.raises(ProtocolError):
        Note.read(number)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [*range(30), *range(first_fresh_seed(), first_fresh_seed() + 30)])
def test_all_who_want_a_feed_have_it_in_the_end(seed: int) -> None:
    random = Random(seed)
    swarm = Swarm([Ebt] * random.randint(2, 7))
    published = [0] * len(FEEDS)
    homes = [random.randrange(len(swarm.peers)) for _ in FEEDS]
    for number, home in enumerate(homes):
        want(swarm, home, KEYS[number])
    for _ in range(random.randint(5, 60)):
        one, other = random.randrange(len(swarm.peers)), random.randrange(len(swarm.peers))
        feed = random.randrange(len(FEEDS))
        match random.randrange(7):
            case 0 | 1:
                swarm.connect(one, other, random.randrange(1, 200) * MS)
            case 2:
                swarm.cut(one, other)
            case 3:
                more = random.randint(1, 5)
                swarm.publish(homes[feed], FEEDS[feed][published[feed] : published[feed] + more])
                published[feed] = min(published[feed] + more, len(FEEDS[feed]))
            case 4:
                want(swarm, one, KEYS[feed])
            case 5 if one != homes[feed]:
                swarm.peers[one].replication.unwant(KEYS[feed], swarm.now)
                swarm.touch(one)
            case 6:
                swarm.restart(one)
        swarm.run(swarm.now + random.randrange(0, 2_000) * MS)
    for place in range(len(swarm.peers)):  # all want all, so that feeds have ways to go
        want(swarm, place, *KEYS)
    connect_all(swarm, random)
    swarm.run(swarm.now + 60 * SECOND)
    expected = {key: count for key, count in zip(KEYS, published, strict=True) if count}
    assert [peer.tips() for peer in swarm.peers] == [expected] * len(swarm.peers)
    before = sent(swarm)
    swarm.run(swarm.now + 60 * SECOND)
    assert sent(swarm) == before, "they rest"


def test_a_message_crosses_each_peer_once_when_trees_stand() -> None:
    swarm = Swarm([Ebt] * 6, KEYS[:1])
    for one in range(6):
        for other in range(one):
            swarm.connect(one, other, DELAY)
    swarm.publish(0, FEEDS[0][:1])
    swarm.run(10 * SECOND)
    before = sum(peer.sent.messages for peer in swarm.peers)
    for message in FEEDS[0][1:]:
        swarm.publish(0, [message])
        swarm.run(swarm.now + SECOND)
    assert {peer.tips()[KEYS[0]] for peer in swarm.peers} == {30}
    assert sum(peer.sent.messages for peer in swarm.peers) - before == 5 * 29


def test_who_writes_a_feed_does_not_get_it_back() -> None:
    swarm = Swarm([Ebt] * 3, KEYS[:1])
    swarm.connect(0, 1, DELAY)
    swarm.connect(0, 2, DELAY)
    swarm.connect(1, 2, DELAY)
    swarm.run(SECOND)
    for message in FEEDS[0]:
        swarm.publish(0, [message])
        swarm.run(swarm.now + SECOND)
    assert {peer.tips()[KEYS[0]] for peer in swarm.peers} == {30}
    assert sum(peer.sent.messages for peer in swarm.peers) == 2 * 30
    swarm.restart(0)  # a store that was lost is filled by the others
    swarm.connect(0, 1, DELAY)
    swarm.run(swarm.now + SECOND)
    assert swarm.peers[0].tips() == {KEYS[0]: 30}


def test_peers_that_meet_again_tell_only_what_differs() -> None:
    swarm = Swarm([Ebt] * 2, KEYS)
    for number in range(len(FEEDS)):
        swarm.publish(0, FEEDS[number][:10])
    swarm.connect(0, 1, DELAY)
    swarm.run(SECOND)
    swarm.cut(0, 1)
    # The publisher has not been told that its messages have arrived: it says how far it is.
    swarm.connect(0, 1, DELAY)
    swarm.run(2 * SECOND)
    swarm.cut(0, 1)
    swarm.publish(0, FEEDS[2][10:12])
    told: list[dict[str, Note]] = []
    receive = swarm.peers[1].replication.receive

    def spy(number: int, bodies: Iterable[bytes], now: int, received: float) -> None:
        told.append(notes_of(list(bodies)))
        receive(number, bodies, now, received)

    swarm.peers[1].replication.receive = spy  # type: ignore[method-assign]
    swarm.connect(0, 1, DELAY)
    swarm.run(3 * SECOND)
    assert set().union(*told) == {KEYS[2]}
    assert swarm.peers[1].tips()[KEYS[2]] == 12


def test_another_takes_over_from_a_silent_peer() -> None:
    ebt = opened(Limits(patience=3 * SECOND))
    ebt.open(2, "@second", is_caller=False, now=0)
    ahead = json.dumps({KEYS[0]: Note(5, False).number}).encode()
    ebt.receive(1, [ahead], 0, 0.0)
    ebt.receive(2, [ahead], 0, 0.0)
    assert notes_of(ebt.take_output(1, ROOM, 0))[KEYS[0]] == Note(0, True)
    assert notes_of(ebt.take_output(2, ROOM, 0))[KEYS[0]] == Note(0, False)
    ebt.wake(3 * SECOND - 1)
    assert ebt.output_due(2) is None
    assert ebt.next_deadline() == 3 * SECOND
    ebt.wake(3 * SECOND)
    assert notes_of(ebt.take_output(1, ROOM, 3 * SECOND))[KEYS[0]] == Note(0, False)
    assert notes_of(ebt.take_output(2, ROOM, 3 * SECOND))[KEYS[0]] == Note(0, True)


def test_another_takes_over_at_once_from_one_that_left() -> None:
    ebt = opened()
    ebt.open(2, "@second", is_caller=False, now=0)
    ahead = json.dumps({KEYS[0]: Note(5, False).number}).encode()
    ebt.receive(1, [ahead], 0, 0.0)
    ebt.receive(2, [ahead], 0, 0.0)
    ebt.take_output(2, ROOM, 0)
    ebt.close(1, SECOND)
    assert notes_of(ebt.take_output(2, ROOM, SECOND)) == {KEYS[0]: Note(0, True)}


def test_a_feed_is_not_exchanged_with_whom_its_author_blocks() -> None:
    ebt = opened(held=5)
    ebt.receive(1, [json.dumps({KEYS[0]: Note(0, True).number}).encode()], 0, 0.0)
    ebt.hide(KEYS[0], "@other", 0)
    assert ebt.take_output(1, ROOM, 0) == [json.dumps({KEYS[0]: -1}, separators=(",", ":")).encode()]


def test_notes_that_tell_progress_wait_for_each_other() -> None:
    ebt = opened(Limits(note_delay=20 * MS), held=1)
    ebt.receive(1, [json.dumps({KEYS[0]: Note(1, False).number}).encode()], 0, 0.0)
    ebt.take_output(1, ROOM, 0)
    for message in FEEDS[0][1:4]:
        ebt._feeds.append([message], 0.0)
        ebt.on_appended(KEYS[0], MS, by=2)
    assert ebt.take_output(1, ROOM, MS) == []
    assert ebt.output_due(1) == 21 * MS
    assert len(ebt.take_output(1, ROOM, 21 * MS)) == 1


def test_who_hears_that_the_other_is_as_far_does_not_tell_so() -> None:
    ebt = opened(Limits(note_delay=20 * MS), held=1)
    ebt.receive(1, [json.dumps({KEYS[0]: Note(1, False).number}).encode()], 0, 0.0)
    ebt.take_output(1, ROOM, 0)
    ebt._feeds.append(FEEDS[0][1:3], 0.0)
    ebt.on_appended(KEYS[0], MS, by=2)
    assert ebt.output_due(1) == 21 * MS
    ebt.receive(1, [json.dumps({KEYS[0]: Note(3, False).number}).encode()], 2 * MS, 0.0)
    assert ebt.output_due(1) is None
    assert ebt.take_output(1, ROOM, 21 * MS) == []
    ebt._feeds.append(FEEDS[0][3:4], 0.0)
    ebt.on_appended(KEYS[0], 30 * MS, by=2)
    assert ebt.output_due(1) == 50 * MS  # what comes later is told
    assert [note.sequence for note in notes_of(ebt.take_output(1, ROOM, 50 * MS)).values()] == [4]


def test_a_request_is_sent_at_once_and_whatever_the_other_says() -> None:
    ebt = opened(Limits(note_delay=20 * MS), held=1)
    ebt.open(2, "@second", is_caller=False, now=0)
    for number in (1, 2):
        ebt.receive(number, [json.dumps({KEYS[0]: Note(1, False).number}).encode()], 0, 0.0)
        ebt.take_output(number, ROOM, 0)
    ebt._feeds.append(FEEDS[0][1:2], 0.0)
    ebt.on_appended(KEYS[0], MS, by=1)
    assert ebt.output_due(2) == 21 * MS
    for position in (5, 6):
        ebt.receive(2, [json.dumps({KEYS[0]: Note(position, False).number}).encode()], 2 * MS, 0.0)
    assert notes_of(ebt.take_output(2, ROOM, 2 * MS)) == {KEYS[0]: Note(2, True)}
    assert ebt.output_due(2) is None


def test_who_is_behind_is_told_at_once() -> None:
    ebt = opened(Limits(note_delay=20 * MS), held=3)
    ebt.receive(1, [json.dumps({KEYS[0]: Note(3, False).number}).encode()], 0, 0.0)
    ebt.take_output(1, ROOM, 0)
    ebt._feeds.append(FEEDS[0][3:4], 0.0)
    ebt.on_appended(KEYS[0], MS, by=2)
    ebt.receive(1, [json.dumps({KEYS[0]: Note(2, False).number}).encode()], 2 * MS, 0.0)
    assert [*notes_of(ebt.take_output(1, ROOM, 2 * MS)).values()] == [Note(4, True)]


def test_of_two_peers_mostly_one_tells_and_each_may_be_the_one() -> None:
    told = Counter[int]()
    for seed in range(200):
        rngs = [Random(f"{seed} {place}") for place in range(3)]
        swarm = Swarm([partial(Ebt, rng=rng) for rng in rngs], [KEYS[0]])
        for pair in ((0, 1), (0, 2), (1, 2)):
            swarm.connect(*pair, DELAY)
        swarm.run()
        # The second message shows that the edge of 1 and 2 is redundant, the third goes without it.
        for message in FEEDS[0][:2]:
            swarm.publish(0, [message])
            swarm.run()
        before = sent(swarm)
        swarm.publish(0, [FEEDS[0][2]])
        swarm.run()
        notes = [after[1] - first[1] for first, after in zip(before, sent(swarm), strict=True)]
        assert {peer.feeds.tips()[KEYS[0]] for peer in swarm.peers} == {3}
        assert notes[0] == 0
        told[notes[1] - notes[2] if sum(notes) == 1 else 2] += 1
    # Both tell if they draw times that lie within the way of a note, 5 ms of 100: one in ten.
    assert 5 <= told.pop(2) <= 40
    assert min(told.values()) > 60
    assert {*told} == {-1, 1}


@pytest.mark.parametrize("loses", [False, True])
def test_what_was_not_told_is_no_loss_when_peers_meet_again(loses: bool) -> None:
    """A peer that heard nothing of the other one's progress reports its own at the next meeting, in time."""
    swarm = Swarm([partial(Ebt, rng=Random(place)) for place in range(2)], [KEYS[0]])
    swarm.publish(0, FEEDS[0][:5])
    swarm.connect(0, 1, DELAY)
    swarm.run()
    swarm.cut(0, 1)
    if loses:  # the publisher has news
        swarm.publish(0, FEEDS[0][5:6])
    started = swarm.now
    swarm.connect(0, 1, DELAY)
    swarm.run(started + DEFAULT_LIMITS.note_delay + 4 * DELAY)
    assert swarm.peers[1].feeds.tips()[KEYS[0]] == 5 + loses
    swarm.run()
    swarm.cut(0, 1)
    before = sent(swarm)
    swarm.connect(0, 1, DELAY)
    swarm.run()
    quiet = [after[1] - first[1] for first, after in zip(before, sent(swarm), strict=True)]
    swarm.cut(0, 1)
    before = sent(swarm)
    swarm.connect(0, 1, DELAY)
    swarm.run()
    assert sent(swarm) == before, quiet


ROOM = 100_000


def compact(message: Message) -> bytes:
    return json.dumps(json.loads(message.text), separators=(",", ":"), ensure_ascii=False).encode()


def forged() -> bytes:
    value = json.loads(FEEDS[0][3].text)
    return json.dumps(value | {"timestamp": 1}).encode()


def forked() -> bytes:
    author = Identity.from_seed(bytes([1]) * 32)
    return compact(Message.create(author, FEEDS[0][2], {"type": "post", "text": "other"}, 1.0))


@pytest.mark.parametrize(
    ("bodies", "reason"),
    [
        ([b'{"signature":'], "cannot be read"),
        ([b'{"signature": 3}'], "a message without an author"),
        ([b"[]"], "neither a message nor notes"),
        ([json.dumps({KEYS[0]: "9"}).encode()], "a note that is no number"),
    ],
)
def test_what_is_wrong_is_refused_and_what_came_before_is_kept(bodies: list[bytes], reason: str) -> None:
    ebt = opened(held=2)
    ebt.receive(1, [json.dumps({KEYS[0]: Note(9, True).number}).encode()], 0, 0.0)
    with pytest.raises(ProtocolError, match=reason):
        ebt.receive(1, [compact(FEEDS[0][2]), *bodies], 0, 0.0)
    assert ebt._feeds.tips() == {KEYS[0]: 3}
    assert [message.sequence for message in ebt.take_stored()] == [3]


def too_long() -> bytes:
    value = json.loads(FEEDS[0][3].text)
    return json.dumps(value | {"content": {"type": "post", "text": "x" * 9_000}}).encode()


def not_base64() -> bytes:
    value = json.loads(FEEDS[0][3].text)
    return json.dumps(value | {"content": "AAAAB.box2"}).encode()


REFUSED = [
    (forged(), "signature does not verify"),
    (compact(FEEDS[0][5]), "does not come after"),
    (too_long(), "the limit is 8192"),
    (not_base64(), "base64"),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED)
def test_a_message_that_is_refused_costs_its_feed_alone(body: bytes, reason: str) -> None:
    """The other feeds of a remote come; of this one nothing more is taken there, and others send it."""
    ebt = opened(held=2)
    ebt.want_all([KEYS[1]], 0)
    ebt.open(2, "@second", is_caller=False, now=0)
    for number in (1, 2):
        ebt.receive(number, [json.dumps(dict.fromkeys(KEYS[:2], Note(9, True).number)).encode()], 0, 0.0)
    assert notes_of(ebt.take_output(1, ROOM, 0))[KEYS[0]] == Note(2, True)
    assert notes_of(ebt.take_output(2, ROOM, 0))[KEYS[0]] == Note(2, False)
    late = [compact(FEEDS[0][4]), b'{"signature": 1, "author": "%s"}' % KEYS[0].encode()]
    ebt.receive(1, [compact(FEEDS[0][2]), body, *late, compact(FEEDS[1][0])], 0, 0.0)
    assert ebt._feeds.tips() == {KEYS[0]: 3, KEYS[1]: 1}
    [(feed, aside)] = ebt.set_aside.items()
    assert (feed, aside.remote) == (KEYS[0], "@other")
    assert reason in aside.reason
    assert notes_of(ebt.take_output(1, ROOM, 0))[KEYS[0]] == Note(3, False)
    assert notes_of(ebt.take_output(2, ROOM, 0))[KEYS[0]] == Note(3, True)
    ebt.receive(1, [json.dumps({KEYS[0]: Note(12, True).number}).encode()], 0, 0.0)
    assert KEYS[0] not in notes_of(ebt.take_output(1, ROOM, 0)), "it is not asked for it again"
    ebt.receive(2, [compact(FEEDS[0][3])], 0, 0.0)
    assert ebt._feeds.tips()[KEYS[0]] == 4
    assert not ebt.set_aside
    ebt.close(2, 0)
    assert notes_of(ebt.take_output(1, ROOM, 0)) == {KEYS[0]: Note(4, True)}, "it may be well there, too"


def test_a_feed_that_nobody_has_without_a_fault_is_tried_once_a_connection() -> None:
    ebt = opened(held=2)
    for number in range(2, 6):
        ebt.open(number, f"@{number}", is_caller=False, now=0)
    tried = []
    for number in range(1, 6):
        ebt.receive(number, [json.dumps({KEYS[0]: Note(9, True).number}).encode()], 0, 0.0)
    for number in range(1, 6):
        if notes_of(ebt.take_output(number, ROOM, 0))[KEYS[0]].receives:
            tried.append(number)
            ebt.receive(number, [forged()], 0, 0.0)
    assert tried == [1, 2, 3, 4, 5]
    for number in range(1, 6):
        ebt.receive(number, [forged(), compact(FEEDS[0][2])], 0, 0.0)
        assert not any(note.receives for note in notes_of(ebt.take_output(number, ROOM, 0)).values())
    assert ebt._feeds.tips() == {KEYS[0]: 2}


def test_messages_that_were_under_way_when_a_feed_was_left_are_no_fault() -> None:
    feeds = MemoryFeeds()
    ebt = Ebt(feeds, MemoryClocks(), [KEYS[0]], Limits(unwanted=2))
    ebt.open(1, "@other", is_caller=False, now=0)
    ebt.receive(1, [json.dumps({KEYS[0]: Note(30, True).number}).encode()], 0, 0.0)
    ebt.receive(1, [compact(FEEDS[0][0])], 0, 0.0)
    ebt.unwant(KEYS[0], 0)
    ebt.receive(1, [compact(message) for message in FEEDS[0][1:9]], 0, 0.0)
    assert feeds.tips() == {KEYS[0]: 1}
    ebt.want_all([KEYS[0]], 0)
    ebt.receive(1, [compact(message) for message in FEEDS[0][1:9]], 0, 0.0)
    assert feeds.tips() == {KEYS[0]: 9}
    with pytest.raises(ProtocolError, match="more than 2 messages"):
        ebt.receive(1, [compact(message) for message in FEEDS[1][:3]], 0, 0.0)


def test_a_forked_feed_is_not_replicated_any_more() -> None:
    ebt = opened(held=4)
    ebt.open(2, "@second", is_caller=False, now=0)
    for number in (1, 2):
        ebt.receive(number, [json.dumps({KEYS[0]: Note(4, True).number}).encode()], 0, 0.0)
        ebt.take_output(number, ROOM, 0)
    ebt.receive(1, [forked(), *map(compact, FEEDS[0][4:])], 0, 0.0)
    for number in (1, 2):
        assert notes_of(ebt.take_output(number, ROOM, 0)) == {KEYS[0]: NOT_WANTED}
    assert not ebt.set_aside, "the proof says it"


def test_notes_have_limits() -> None:
    ebt = opened(Limits(notes_burst=5, notes_per_s=1))
    same = json.dumps({KEYS[0]: 0}).encode()
    ebt.receive(1, [same] * 5, 0, 0.0)
    ebt.receive(1, [same] * 2, 2 * SECOND, 0.0)
    with pytest.raises(ProtocolError, match="too many notes"):
        ebt.receive(1, [same], 2 * SECOND, 0.0)


def test_large_feeds_take_turns() -> None:
    feeds = MemoryFeeds()
    ebt = Ebt(feeds, MemoryClocks())
    for number in (0, 1):
        feeds.append(FEEDS[number], 0.0)
        ebt.want_all([KEYS[number]], 0)
    ebt.open(1, "@other", is_caller=False, now=0)
    ebt.take_output(1, ROOM, 0)
    ebt.receive(1, [json.dumps(dict.fromkeys(KEYS[:2], 0)).encode()], 0, 0.0)
    authors = []
    while ebt.output_due(1) is not None:
        authors += [json.loads(body)["author"] for body in ebt.take_output(1, 2_000, 0)]
    assert authors.count(KEYS[0]) == authors.count(KEYS[1]) == 30
    assert authors[:15].count(KEYS[1]) >= 5


class Guests:
    """A DelegatedWants that lets everybody have what they wish for, until they are said to have left."""

    def __init__(self) -> None:
        self.wishes: set[tuple[str, str]] = set()

    def accepts(self, remote: str, feed: str) -> bool:
        self.wishes.add((remote, feed))
        return True

    def on_leave(self, remote: str, feed: str) -> None:
        self.wishes.discard((remote, feed))

    def is_wanted(self, feed: str) -> bool:
        return any(feed == wished for _, wished in self.wishes)


def test_a_wish_is_remembered_though_somebody_else_has_come_back() -> None:
    clocks, guests = MemoryClocks(), Guests()
    gateway = Ebt(MemoryFeeds(), clocks)
    gateway.selection.behalf = guests
    ann, ben, feed = KEYS[1], KEYS[2], KEYS[0]
    for number, guest in enumerate((ann, ben)):
        gateway.open(number, guest, is_caller=False, now=0)
        gateway.receive(number, [json.dumps({feed: Note(5, True).number}).encode()], 0, 0.0)
        gateway.close(number, 0)
    guests.wishes.clear()  # both have been away for long
    gateway.unwant(feed, 0)
    gateway.open(2, ann, is_caller=False, now=0)
    gateway.close(2, 0)
    guests.on_leave(ann, feed)
    gateway.unwant(feed, 0)
    gateway.open(3, ben, is_caller=False, now=0)
    assert (ben, feed) in guests.wishes
    assert feed in gateway.wanted
    said = [json.loads(body) for body in gateway.take_output(3, 1000, 1_000_000_000)]
    assert any(feed in notes for notes in said), "what Ben has is asked for"


def test_one_that_returns_gets_what_is_new_though_a_message_of_its_own_was_under_way() -> None:
    store = MemoryFeeds()
    hub = Ebt(store, MemoryClocks(), [KEYS[0]])
    hub.open(1, "ann", is_caller=False, now=0)
    hub.receive(1, [json.dumps({KEYS[0]: Note(1, True).number}).encode()], 0, 0.0)
    hub.on_left(KEYS[0], "ann")
    hub.receive(1, [FEEDS[0][0].encoded], 0, 0.0)
    hub.on_returned(KEYS[0], "ann", 0)
    hub.append(FEEDS[0][1:3], 0, 0.0)
    sent = [json.loads(body) for body in hub.take_output(1, 100_000, 1_000_000_000)]
    assert [body["sequence"] for body in sent if "signature" in body] == [2, 3]


def test_history_is_no_way_around_a_block() -> None:
    store = MemoryFeeds()
    store.append(FEEDS[0], 0.0)
    peer = Ebt(store, MemoryClocks(), [KEYS[0]])
    source = HistorySource(store, [{"id": KEYS[0], "live": True}], lambda feed: peer.hides(feed, "ann"))
    assert source.has_output
    peer.hide(KEYS[0], "ann", 0)
    assert source.take_output(10_000) == []
    assert source.is_over
    peer.selection.show(KEYS[0], "ann")
    assert source.has_output


def test_a_feed_whose_fork_is_proved_ahead_is_exchanged_up_to_the_fork() -> None:
    """One peer has two messages 20 of a feed, as single ones; the other has one branch of it."""
    feed, author = FEEDS[0], Identity.from_seed(bytes([1]) * 32)
    other = Message.create(author, feed[18], {"type": "post", "text": "another message 20"}, 1.0)
    swarm = Swarm([Ebt] * 2)
    store = swarm.peers[0].feeds
    store.append(feed[:5], 0.0)
    store.add_out_of_order(feed[19], 0.0)
    with pytest.raises(ForkedFeed):
        store.add_out_of_order(other, 0.0)
    for place in range(2):
        want(swarm, place, KEYS[0])
    swarm.publish(1, feed)
    swarm.connect(0, 1, DELAY)
    swarm.run(60 * SECOND)
    assert store.tips()[KEYS[0]] == 19
    assert store.is_frozen(KEYS[0])
