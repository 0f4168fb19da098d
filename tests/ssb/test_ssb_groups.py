"""Private groups: who can read what, whatever was written where, and in whatever order it came."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutants.groups import MUTANTS
from mutants.patches import mutated

from ssb.groups import groups as groups_module
from ssb.groups.direct import shared_keys
from ssb.groups.envelope import GROUP, Key, box, context_of
from ssb.groups.groups import MOST_OFFERS, Group, GroupError, Groups
from ssb.groups.writing import Writer
from ssb.keys import Identity, InvalidRef, encode_base64, feed_ref
from ssb.message import Message

PEOPLE = [Identity.from_seed(bytes([number]) * 32) for number in range(1, 41)]
ANN, BEN, CLEO, DAN = PEOPLE[:4]


@dataclass
class Person:
    """A feed, and what its owner has of others'."""

    identity: Identity
    random: Random
    groups: Groups = field(init=False)
    feed: list[Message] = field(default_factory=list)
    has: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        self.groups = Groups(self.identity)
        self.writer = Writer(self.groups, self.write, self.random.randbytes)

    @property
    def ref(self) -> str:
        return self.identity.ref

    def write(self, content: Mapping[str, Any], keys: Sequence[Key]) -> Message:
        last = self.feed[-1] if self.feed else None
        text = box(content, context_of(self.ref, last and last.id), keys, self.random.randbytes)
        self.feed.append(Message.create(self.identity, last, text, len(self.feed)))
        return self.feed[-1]

    def hear(self, other: "Person", most: int = 1_000_000) -> None:
        """Get the next messages of another feed."""
        known = self.has[other.ref]
        for message in other.feed[known : known + most]:
            self.groups.add(message)
        self.has[other.ref] = min(known + most, len(other.feed))

    def post(self, group: str, text: str) -> str:
        return self.writer.post(group, {"type": "post", "text": text}).id

    def reads(self, message: str) -> bool:
        return self.groups.opened(message) is not None


def people(count: int, seed: int = 0) -> list[Person]:
    random = Random(seed)
    return [Person(identity, random) for identity in PEOPLE[:count]]


def exchange(everybody: Sequence[Person]) -> None:
    for one in everybody:
        for other in everybody:
            if one is not other:
                one.hear(other)


def the_group(person: Person) -> Group:
    [group] = person.groups.every()
    return group


def test_a_group_is_read_by_its_members_from_its_beginning() -> None:
    ann, ben, cleo = everybody = people(3)
    group = ann.writer.create()
    first = ann.post(group, "before Ben came")
    ann.writer.add(group, [ben.ref], "welcome")
    exchange(everybody)
    second = ben.post(group, "from Ben")
    exchange(everybody)
    assert [each.reads(first) for each in everybody] == [True, True, False]
    assert [each.reads(second) for each in everybody] == [True, True, False]
    assert the_group(ann).members == the_group(ben).members == {ann.ref, ben.ref}
    assert the_group(ben).id == group
    assert cleo.groups.every() == []
    contents = [private.content for private in ben.groups.messages(the_group(ben))]
    types = ["group/init", "group/add-member", "post", "group/add-member", "post"]
    assert sorted(each["type"] for each in contents) == sorted(types)
    assert {each.get("text") for each in contents} == {None, "before Ben came", "welcome", "from Ben"}


def test_who_is_excluded_reads_what_was_written_before_only() -> None:
    ann, ben, cleo = everybody = people(3)
    group = ann.writer.create()
    ann.writer.add(group, [ben.ref, cleo.ref])
    exchange(everybody)
    before = cleo.post(group, "before")
    exchange(everybody)
    epoch = ann.writer.remove(group, [cleo.ref])
    after = ann.post(group, "after")
    exchange(everybody)
    answer = ben.post(group, "an answer")
    exchange(everybody)
    assert [each.reads(before) for each in everybody] == [True, True, True]
    assert [each.reads(after) for each in everybody] == [True, True, False]
    assert [each.reads(answer) for each in everybody] == [True, True, False]
    assert the_group(ann).members == the_group(ben).members == {ann.ref, ben.ref}
    assert the_group(ben).id == group
    assert ben.groups.get(epoch) == the_group(ben)
    assert the_group(cleo).members == frozenset()
    with pytest.raises(GroupError, match="you are no member"):
        cleo.post(group, "?")
    ann.writer.add(group, [cleo.ref])  # once more
    exchange(everybody)
    assert cleo.reads(after)
    assert all(len(each.groups.get(epoch).members) == 3 for each in everybody)


def test_who_writes_without_knowing_of_an_exclusion_is_still_read() -> None:
    """The limit of the scheme: an excluded member reads on until the others have heard of it."""
    ann, ben, cleo = everybody = people(3)
    group = ann.writer.create()
    ann.writer.add(group, [ben.ref, cleo.ref])
    exchange(everybody)
    ann.writer.remove(group, [cleo.ref])
    unaware = ben.post(group, "Ben has not heard of it")
    exchange(everybody)
    assert [each.reads(unaware) for each in everybody] == [True, True, True]


def test_two_who_exclude_another_one_each_at_once_agree() -> None:
    """Neither knows of the other's epoch; whoever writes next begins one without both (section 4.6)."""
    ann, ben, cleo, dan = everybody = people(4)
    group = ann.writer.create()
    ann.writer.add(group, [each.ref for each in everybody[1:]])
    exchange(everybody)
    ann.writer.remove(group, [cleo.ref])
    ben.writer.remove(group, [dan.ref])
    exchange(everybody)
    assert the_group(ann).members == the_group(ben).members == {ann.ref, ben.ref}
    assert the_group(ann).current is None
    text = ann.post(group, "only us")
    exchange(everybody)
    assert [each.reads(text) for each in everybody] == [True, True, False, False]
    assert the_group(ben).current is not None
    assert ben.reads(ben.post(group, "yes"))
    assert len({epoch.id for epoch in the_group(ann).tips}) == 1


@pytest.mark.parametrize("seed", range(6))
def test_the_same_exclusion_by_two_ends_in_the_epoch_with_the_smallest_key(seed: int) -> None:
    ann, ben, cleo = everybody = people(3, seed)
    group = ann.writer.create()
    ann.writer.add(group, [ben.ref, cleo.ref])
    exchange(everybody)
    ann.writer.remove(group, [cleo.ref])
    ben.writer.remove(group, [cleo.ref])
    exchange(everybody)
    keys = [each.key.secret for each in the_group(ann).tips]
    assert len(keys) == 2
    assert the_current(ann, group) == the_current(ben, group) == min(keys)


def test_a_stranger_cannot_go_on_with_a_group() -> None:
    """It knows the group's id, and adds a member to an epoch of its own that names the group's."""
    ann, ben, eve = people(3)
    group = ann.writer.create()
    ann.writer.add(group, [ben.ref])
    ben.hear(ann)
    root = the_group(ben).epochs[0].root
    key = Key(bytes(32), GROUP)
    tangles = {
        "group": {"root": root, "previous": [root]},
        "epoch": {"root": root, "previous": [root]},
        "members": {"root": None, "previous": None},
    }
    init = eve.write({"type": "group/init", "version": "v2", "tangles": tangles}, [key])
    content = {
        "type": "group/add-member",
        "version": "v1",
        "groupKey": encode_base64(key.secret),
        "root": init.id,
        "recps": [group, ben.ref],
    }
    eve.write(content, [key, *eve.groups.keys_of([ben.ref])])
    ben.hear(eve)
    assert len(ben.groups.every()) == 2
    text = ben.post(group, "to Ann")
    eve.hear(ben)
    assert not eve.reads(text)
    assert ben.groups.get(group).members == {ann.ref, ben.ref}


def test_a_stranger_with_the_key_adds_and_excludes_nobody() -> None:
    """A member told it to a stranger, who is no member for that, nor are those whom it adds."""
    ann, ben, eve = people(3)
    group = ann.writer.create()
    ann.writer.add(group, [ben.ref])
    ben.hear(ann)
    epoch = the_group(ann).epochs[0]
    content = {
        "type": "group/add-member",
        "version": "v1",
        "groupKey": encode_base64(epoch.key.secret),
        "root": epoch.root,
        "recps": [group, eve.ref],
    }
    eve.write(content, [epoch.key])
    tangles = {"members": {"root": epoch.root, "previous": [epoch.root]}}
    excludes = {"type": "group/exclude-member", "excludes": [ann.ref], "tangles": tangles}
    eve.write(excludes, [epoch.key])
    ben.hear(eve)
    assert len(ben.groups.messages(ben.groups.get(group))) == 5
    assert ben.groups.get(group).members == {ann.ref, ben.ref}


@pytest.mark.parametrize("seed", range(20))
def test_a_member_that_begins_a_group_with_the_key_of_another_one_takes_nothing_from_it(seed: int) -> None:
    everybody, group = begun(0, 3)
    ann, ben, cleo, _ = everybody
    key = the_group(ben).epochs[0].key
    init = ben.write({"type": "group/init", "tangles": {"group": {"root": None, "previous": None}}}, [key])
    content = {"type": "group/add-member", "groupKey": encode_base64(key.secret), "root": init.id}
    for feeds in ([ben.ref, ann.ref], [cleo.ref]):
        content["recps"] = ["%x", *feeds]
        ben.write(content, [key, *ben.groups.keys_of(feeds)])
    messages = [*ann.feed, *ben.feed]
    Random(seed).shuffle(messages)
    groups = Groups(cleo.identity)
    for message in messages:
        groups.add(message)
    assert groups.get(group).members == {ann.ref, ben.ref, cleo.ref}
    assert len(groups.every()) == 2
    assert len(groups.messages(groups.get(group))) == len(messages)
    assert {each.id for each in messages if groups.opened(each.id)} == {each.id for each in messages}


def test_one_that_was_moved_opens_for_nobody() -> None:
    """Mallory copies Ann's ciphertext: as her message, it opens for no member."""
    ann, ben, mallory = people(3)
    group = ann.writer.create()
    ann.writer.add(group, [ben.ref])
    text = ann.post(group, "from Ann")
    ben.hear(ann)
    assert ben.reads(text)
    for author, before in ((mallory, None), (ann, ann.feed[-1])):
        copy = Message.create(author.identity, before, ann.feed[-1].content, 9)
        assert ben.groups.add(copy) == []
        assert not ben.reads(copy.id)


def test_mistakes_are_one_line() -> None:
    ann, ben, cleo = people(3)
    group = ann.writer.create()
    with pytest.raises(GroupError, match="no such group"):
        ben.post(group, "?")
    with pytest.raises(GroupError, match="is not in the group"):
        ann.writer.remove(group, [cleo.ref])
    with pytest.raises(GroupError, match="another member has to"):
        ann.writer.remove(group, [ann.ref])


def test_thirty_nine_are_added_by_several_messages_and_one_is_left_out() -> None:
    ann, *others = everybody = people(40)
    group = ann.writer.create()
    ann.writer.add(group, [each.ref for each in others])
    assert len(ann.feed) == 2 + 3
    ann.writer.remove(group, [others[7].ref])
    text = ann.post(group, "39 of us")
    for each in others:
        each.hear(ann)
    assert [each.reads(text) for each in everybody] == [each is not others[7] for each in everybody]


def epoch_content(first: str, previous: Sequence[str]) -> dict[str, Any]:
    tangles = {
        "group": {"root": first, "previous": [*previous]},
        "epoch": {"root": first, "previous": [*previous]},
    }
    return {"type": "group/init", "version": "v2", "tangles": tangles}


def forge(eve: Person, first: str, previous: Sequence[str], secret: bytes, feeds: Sequence[str]) -> None:
    """Begin an epoch behind any, with any key, for any feeds; its author excludes herself there."""
    key = Key(secret, GROUP)
    init = eve.write(epoch_content(first, previous), [key])
    eve.groups.add(init)
    eve.groups.learn(init.id, secret)
    addition = {"type": "group/add-member", "groupKey": encode_base64(secret), "root": init.id}
    eve.write({**addition, "recps": ["%x", *feeds]}, [key, *eve.groups.keys_of(feeds)])
    exclude(eve, init.id, key, [eve.ref])


def exclude(eve: Person, root: str, key: Key, feeds: Sequence[str]) -> None:
    tangles = {"members": {"root": root, "previous": [root]}}
    eve.write({"type": "group/exclude-member", "excludes": [*feeds], "tangles": tangles}, [key])


def test_a_removed_member_does_not_take_the_group_over() -> None:
    """Her epoch goes on from an old one, and has the members of the group and the smallest key."""
    ann, ben, eve = everybody = people(3)
    group = ann.writer.create()
    ann.writer.add(group, [ben.ref, eve.ref])
    exchange(everybody)
    root = the_group(eve).epochs[0].root
    ann.writer.remove(group, [eve.ref])
    exchange(everybody)
    forge(eve, root, [root], bytes(32), [each.ref for each in everybody])
    exchange(everybody)
    assert the_group(ann).members == the_group(ben).members == {ann.ref, ben.ref}
    text = ann.post(group, "without Eve")
    exchange(everybody)
    assert [each.reads(text) for each in everybody] == [True, True, False]


def test_a_late_exclusion_in_an_old_epoch_does_not_bring_back_who_left_since() -> None:
    """Eve, removed from the second epoch, excludes in the first one the author of the second."""
    ann, ben, cleo, eve = everybody = people(4)
    group = ann.writer.create()
    ann.writer.add(group, [each.ref for each in everybody[1:]])
    exchange(everybody)
    [first] = the_group(eve).epochs
    ben.writer.remove(group, [cleo.ref])
    exchange(everybody)
    ann.writer.remove(group, [eve.ref])
    exchange(everybody)
    exclude(eve, first.root, first.key, [ben.ref])
    exchange(everybody)
    text = ann.post(group, "without Eve")
    exchange(everybody)
    assert [each.reads(text) for each in everybody] == [True, True, False, False]


def test_a_member_of_two_groups_does_not_make_them_one() -> None:
    ann, ben, eve = everybody = people(3)
    groups = [ann.writer.create(), ann.writer.create()]
    ann.writer.add(groups[0], [ben.ref, eve.ref])
    ann.writer.add(groups[1], [eve.ref])
    exchange(everybody)
    roots = [ann.groups.get(each).epochs[0].root for each in groups]
    forge(eve, roots[0], roots, bytes(32), [ann.ref, ben.ref])
    exchange(everybody)
    assert ann.groups.get(groups[0]).members == {ann.ref, ben.ref, eve.ref}
    assert ann.groups.get(groups[1]).members == {ann.ref, eve.ref}


def test_a_message_adds_no_more_feeds_than_it_has_slots() -> None:
    ann, ben = people(2)
    group = ann.writer.create()
    [epoch] = the_group(ann).epochs
    addition = {"type": "group/add-member", "groupKey": encode_base64(epoch.key.secret), "root": epoch.root}
    feeds = [ben.ref, *(each.ref for each in PEOPLE[2:])]
    ann.write({**addition, "recps": [group, *feeds]}, [epoch.key, *ann.groups.keys_of([ben.ref])])
    ben.hear(ann)
    assert ben.groups.get(group).members == {ann.ref, *feeds[:15]}


def test_the_members_of_a_strangers_group_are_wanted_after_the_user_has_written_there() -> None:
    ann, ben, cleo = people(3)
    group = ann.writer.create()
    ann.writer.add(group, [ben.ref, cleo.ref])
    ben.hear(ann)
    everybody = {ann.ref, ben.ref, cleo.ref}
    assert ben.groups.comembers(lambda feed: False) == set()
    assert ben.groups.comembers(lambda feed: feed == cleo.ref) == set()
    assert ben.groups.comembers(lambda feed: feed == ann.ref) == everybody
    assert ann.groups.comembers(lambda feed: False) == everybody
    ben.post(group, "hello")
    assert ben.groups.comembers(lambda feed: False) == everybody


def test_a_post_does_not_make_a_peer_compute_all_groups_again(monkeypatch: pytest.MonkeyPatch) -> None:
    (ann, ben, *_), group = begun(0, 3)
    for number in range(20):
        ann.post(group, str(number))
    calls = []
    every = Groups.every
    monkeypatch.setattr(Groups, "every", lambda self: calls.append(self) or every(self))
    for message in ann.feed:
        ben.groups.add(message)
        assert ben.groups.comembers(lambda feed: True) == the_members(ann, group)
    assert calls.count(ben.groups) == 1


def test_of_too_many_fellow_members_those_of_the_users_own_groups_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups_module, "MOST_COMEMBERS", 5)
    ann, ben = people(2)
    own = ben.writer.create()
    ben.writer.add(own, [DAN.ref])
    ann.writer.add(ann.writer.create(), [ben.ref, *(each.ref for each in PEOPLE[4:14])])
    ben.hear(ann)
    found = ben.groups.comembers(lambda feed: True)
    assert len(found) == 5
    assert {ben.ref, DAN.ref} < found


def test_one_feed_offers_a_limited_number_of_epochs() -> None:
    """Each key is tried on each message. Other feeds' offers still count."""
    ann, ben, cleo = everybody = people(3)
    begun_ones = [ann.writer.create() for _ in range(MOST_OFFERS + 3)]
    for each in begun_ones:
        ann.writer.add(each, [ben.ref])
    group = cleo.writer.create()
    cleo.writer.add(group, [ben.ref])
    exchange(everybody)
    assert {each.id for each in ben.groups.every()} == {group, *begun_ones[:MOST_OFFERS]}
    assert len(ann.groups.every()) == len(begun_ones)
    text = ann.post(begun_ones[0], "goes on")
    exchange(everybody)
    assert ben.reads(text)


def test_a_limited_number_of_messages_waits_for_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "MOST_OUTSIDE", 3)
    ann, ben = people(2)
    group = ann.writer.create()
    texts = [ann.post(group, "x") for _ in range(5)]
    for message in ann.feed:
        ben.groups.add(message)
    key = the_group(ann).epochs[0].key.secret
    ben.groups.add(ann.feed[0])
    ben.groups.learn(ann.feed[0].id, key)
    assert ben.groups.every() == []  # its first message waits no more
    assert not any(ben.reads(each) for each in texts)
    late = Groups(ben.identity)
    late.learn(ann.feed[0].id, key)
    for message in ann.feed:
        late.add(message)
    assert all(late.opened(each) for each in texts)


HOSTILE = st.lists(
    st.tuples(
        st.sampled_from(["post", "remove", "forge", "forge", "exclude", "exclude", "add"]),
        st.integers(0, 1 << 32),
    ),
    max_size=14,
)


@settings(deadline=None, max_examples=60)
@given(HOSTILE, st.integers(0, 1 << 32))
def test_who_was_removed_reads_nothing_that_is_written_after(steps: list[tuple[str, int]], seed: int) -> None:
    """All hear each message at once. Those removed forge epochs behind any that they know, with small keys.

    They exclude anybody in any epoch whose key they have, and hand its key to anybody. The model: a set.
    """
    everybody, group = begun(seed, 4)
    first = the_group(everybody[0]).epochs[0].root
    out: set[str] = set()
    for number, (what, choice) in enumerate(steps):
        random = Random(choice)
        honest = [each for each in everybody if each.ref not in out]
        hostile = [each for each in everybody if each.ref in out]
        feeds = [each.ref for each in random.sample(everybody, random.randint(1, 4))]
        if what in ("post", "remove") or not hostile:
            person = random.choice(honest)
            try:
                if what == "remove":
                    friend = random.choice(honest)
                    person.writer.remove(group, [friend.ref])
                    out.add(friend.ref)
                else:
                    text = person.post(group, "x")
                    readers = person.groups.get(group).readers
                    exchange(everybody)
                    assert {each.ref for each in everybody if each.reads(text)} == readers
                    assert not readers & out
            except GroupError:
                pass
        else:
            eve = random.choice(hostile)
            known = [epoch for each in eve.groups.every() for epoch in each.epochs]
            epoch = random.choice(known)
            if what == "forge":
                behind = random.sample(known, random.randint(1, min(2, len(known))))
                secret = number.to_bytes(32, "big")
                forge(eve, first, [each.root for each in behind], secret, feeds)
            elif what == "exclude":
                exclude(eve, epoch.root, epoch.key, feeds)
            else:
                content = {
                    "type": "group/add-member",
                    "groupKey": encode_base64(epoch.key.secret),
                    "root": epoch.root,
                    "recps": [epoch.id, *feeds],
                }
                eve.write(content, [epoch.key, *eve.groups.keys_of(feeds)])
        exchange(everybody)
    every = [message for person in everybody for message in person.feed]
    for person in everybody:
        Random(seed).shuffle(every)
        groups = Groups(person.identity)
        for message in every:
            groups.add(message)
        assert groups.get(group) is not None
        if person.ref not in out:  # who forges knows the key of an epoch to which it has not added itself
            view = [(each.id, each.members, each.readers) for each in groups.every()]
            assert view == [(each.id, each.members, each.readers) for each in person.groups.every()]


KINDS = ["post", "post", "add", "remove", "hear", "hear", "hear"]
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 3), st.integers(0, 3), st.integers(1, 6)), max_size=25
)
Steps = list[tuple[str, int, int, int]]


def begun(seed: int, members: int) -> tuple[list[Person], str]:
    """Return four people, and a group of the first few, who know of it."""
    everybody = people(4, seed)
    group = everybody[0].writer.create()
    everybody[0].writer.add(group, [each.ref for each in everybody[:members]])
    exchange(everybody)
    return everybody, group


def play(everybody: Sequence[Person], group: str, steps: Steps) -> None:
    for what, one, other, most in steps:
        person, friend = everybody[one], everybody[other]
        try:
            match what:
                case "hear":
                    person.hear(friend, most)
                case "add":
                    person.writer.add(group, [friend.ref])
                case "remove":
                    person.writer.remove(group, [friend.ref])
                case _:
                    person.post(group, "x")
        except GroupError:
            continue


@settings(deadline=None)
@given(STEPS, st.integers(1, 4), st.integers(0, 1 << 32))
def test_one_after_the_other_they_read_what_a_set_of_members_says(
    steps: Steps, members: int, seed: int
) -> None:
    """All hear each message at once. The model: a set of members, and for each post who may ever read it."""
    everybody, group = begun(seed, members)
    inside = {each.ref for each in everybody[:members]}
    readers: dict[str, set[str]] = {}
    epoch: list[str] = []  # its posts
    for what, one, other, _ in steps:
        person, friend = everybody[one], everybody[other]
        may = person.ref in inside
        if what == "remove":
            may = may and friend.ref in inside - {person.ref}
        try:
            match what:
                case "post":
                    id_ = person.post(group, "x")
                    epoch.append(id_)
                    readers[id_] = set(inside)
                case "add":
                    person.writer.add(group, [friend.ref])
                    inside.add(friend.ref)
                    for id_ in epoch:
                        readers[id_].add(friend.ref)
                case "remove":
                    group = person.writer.remove(group, [friend.ref])
                    inside.remove(friend.ref)
                    epoch = []
            assert may or what == "hear"
        except GroupError:
            assert not may
        exchange(everybody)
        for each in everybody:
            # Who was removed and is added again knows no way from the first epochs to the newest.
            found = [some.members for some in each.groups.every() if some.members]
            assert found == ([inside] if found and each.ref in inside else [])
            assert found or each.ref not in inside
            assert {id_ for id_ in readers if each.reads(id_)} == {
                id_ for id_, some in readers.items() if each.ref in some
            }


@settings(deadline=None)
@given(STEPS, st.integers(2, 4), st.integers(0, 1 << 32))
def test_nobody_reads_but_those_who_were_ever_handed_the_key(steps: Steps, members: int, seed: int) -> None:
    """They hear of each other late, or in parts. The model: who was handed the key of each epoch."""
    everybody, group = begun(seed, members)
    holders: defaultdict[bytes, set[str]] = defaultdict(set)
    first = the_group(everybody[0]).current
    assert first is not None
    holders[first.key.secret] = {each.ref for each in everybody[:members]}
    posts: dict[str, bytes] = {}
    for what, one, other, most in steps:
        person, friend = everybody[one], everybody[other]
        if what == "hear":
            person.hear(friend, most)
            continue
        try:
            known = person.groups.get(group)
            begins = known.current is None
            match what:
                case "post":
                    id_ = person.post(group, "x")
                    private = person.groups.opened(id_)
                    assert private is not None
                    key = posts[id_] = private.key.secret
                case "add":
                    person.writer.add(group, [friend.ref])
                    key = the_current(person, group)
                    holders[key].add(friend.ref)
                case "remove":
                    person.writer.remove(group, [friend.ref])
                    begins = True
                    key = the_current(person, group)
            if begins:
                holders[key] |= known.members - ({friend.ref} if what == "remove" else set())
        except GroupError:
            continue
    exchange(everybody)
    for id_, key in posts.items():
        assert {each.ref for each in everybody if each.reads(id_)} == holders[key]


def the_members(person: Person, group: str) -> frozenset[str]:
    return person.groups.get(group).members


def the_current(person: Person, group: str) -> bytes:
    epoch = person.groups.get(group).current
    assert epoch is not None
    return epoch.key.secret


@settings(deadline=None)
@given(STEPS, st.integers(2, 4), st.integers(0, 1 << 32))
def test_in_the_end_the_members_of_all_open_epochs_agree(steps: Steps, members: int, seed: int) -> None:
    """Whatever happened: once they have heard all, those who are left read each other."""
    everybody, group = begun(seed, members)
    play(everybody, group, steps)
    exchange(everybody)
    for person in everybody:
        try:
            text = person.post(group, "the end")
        except GroupError:
            continue
        exchange(everybody)
        for other in everybody:
            assert other.reads(text) == (other.ref in person.groups.get(group).readers)


@settings(deadline=None)
@given(STEPS, st.integers(2, 4), st.integers(0, 1 << 32), st.randoms(use_true_random=False))
def test_the_same_messages_make_the_same_groups_in_any_order(
    steps: Steps, members: int, seed: int, random: Random
) -> None:
    everybody, group = begun(seed, members)
    play(everybody, group, steps)
    every = [message for person in everybody for message in person.feed]
    for person in everybody:
        found = []
        for _ in range(2):
            random.shuffle(every)
            groups = Groups(person.identity)
            opened = [private.message.id for message in every for private in groups.add(message)]
            assert len(opened) == len(set(opened))
            assert set(opened) == {each.id for each in every if groups.opened(each.id)}
            view = [
                (each.id, each.members, each.readers, each.current and each.current.id)
                for each in groups.every()
            ]
            found.append((view, set(opened)))
        assert found[0] == found[1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "@x", "%x", "group/init"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["root", "x"]), inner),
    max_leaves=6,
)
TANGLE = st.fixed_dictionaries({"root": JSON, "previous": JSON})
MEMBERS = {
    "groupKey": JSON,
    "root": JSON,
    "recps": JSON,
    "excludes": JSON,
    "tangles": JSON | st.dictionaries(st.sampled_from(["group", "members", "epoch"]), TANGLE),
}
CONTENTS = st.builds(
    lambda kind, rest: {"type": kind, **rest},
    st.sampled_from(["group/init", "group/add-member", "group/exclude-member", "post"]) | JSON,
    st.fixed_dictionaries({}, optional=MEMBERS),
)


@settings(deadline=None)
@given(st.lists(CONTENTS, max_size=6))
def test_a_member_that_writes_anything_stops_nobody(contents: list[dict[str, Any]]) -> None:
    """Malformed contents of a member are kept as messages of the group, and change nothing else."""
    everybody, group = begun(0, 3)
    ann, ben, *_ = everybody
    key = the_group(ben).epochs[0].key
    for content in contents:
        ben.write(content, [key])
        ben.write(content, ben.groups.keys_of([ann.ref]))
    ann.hear(ben)
    text = ann.post(group, "goes on")
    exchange(everybody)
    assert [each.reads(text) for each in everybody] == [True, True, True, False]
    assert the_group(ann).members == {each.ref for each in everybody[:3]}
    assert len(ann.groups.messages(the_group(ann))) == 3 + len(contents) + 1


CAUGHT_BY = {
    "strangers with the key add members": test_a_stranger_with_the_key_adds_and_excludes_nobody,
    "strangers with the key exclude members": test_a_stranger_with_the_key_adds_and_excludes_nobody,
    "strangers go on with a group": test_a_stranger_cannot_go_on_with_a_group,
    "the key stays when a member is removed": test_who_is_excluded_reads_what_was_written_before_only,
    "of two epochs any counts": test_two_who_exclude_another_one_each_at_once_agree,
    "the largest key counts": partial(
        test_the_same_exclusion_by_two_ends_in_the_epoch_with_the_smallest_key, seed=0
    ),
    "an epoch with a removed reader is written in": test_a_removed_member_does_not_take_the_group_over,
    "an epoch follows none whose later members exclude its author": (
        test_a_late_exclusion_in_an_old_epoch_does_not_bring_back_who_left_since
    ),
    "an epoch joins two groups": test_a_member_of_two_groups_does_not_make_them_one,
    "what came before a key is not opened with it": test_a_group_is_read_by_its_members_from_its_beginning,
    "an envelope opens behind any message": test_one_that_was_moved_opens_for_nobody,
}


@pytest.mark.patches
@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_caught(name: str) -> None:
    with mutated(name, MUTANTS), pytest.raises((AssertionError, GroupError)):
        CAUGHT_BY[name]()


def test_a_member_without_a_usable_key_is_none() -> None:
    """A reference has 32 bytes, which need not be a key. Such a member would stop all later epochs."""
    unusable = feed_ref(bytes(31) + b"\xff")
    with pytest.raises(InvalidRef):
        shared_keys(ANN, unusable)
    ann, ben, cleo = everybody = people(3)
    group = ann.writer.create()
    ann.writer.add(group, [ben.ref, cleo.ref])
    exchange(everybody)
    epoch = the_group(ben).epochs[0]
    content = {"type": "group/add-member", "version": "v1", "root": epoch.root}
    content |= {"tangles": epoch.tangles("group", "members")}
    content |= {"groupKey": encode_base64(epoch.key.secret), "recps": [epoch.id, unusable]}
    ben.write(content, [epoch.key])
    exchange(everybody)
    assert the_group(ann).members == {each.ref for each in everybody}
    ann.writer.remove(group, [ben.ref])
    exchange(everybody)
    text = ann.post(group, "goes on")
    exchange(everybody)
    assert [each.reads(text) for each in everybody] == [True, False, True]
