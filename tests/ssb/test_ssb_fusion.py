"""Fusions: who is a member, in whatever order messages come, and that hostile messages make nobody one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutants.devices import MUTANTS
from mutants.patches import mutated

from ssb.applications.fusion import (
    MOST_BEGUN,
    MOST_DEVICES,
    MOST_INVITED,
    MOST_NAMED,
    Consent,
    Fusion,
    Fusions,
    begin_content,
    consent_content,
    entrust_content,
    invite_content,
    key_in,
    proof_content,
    tombstone_content,
)
from ssb.graph import Graph, Relation
from ssb.keys import Identity
from ssb.message import Message

KEYS = [Identity.from_seed(bytes([number]) * 32) for number in range(1, 6)]
LAPTOP, PHONE, TABLET, THIEF, OTHER = KEYS
SECRET = Identity.from_seed(b"s" * 32)


class Feeds:
    """Feeds of some authors, each of whom knows the fusions from the messages that it was told."""

    def __init__(self) -> None:
        self.tips: dict[str, Message] = {}
        self.all: list[Message] = []
        self.known = {key.ref: Fusions() for key in KEYS}

    def say(self, key: Identity, content: dict, *, told: bool = True) -> Message:
        message = Message.create(key, self.tips.get(key.ref), content, 1)
        self.tips[key.ref] = message
        self.all.append(message)
        for author, fusions in self.known.items():
            if told or author == key.ref:
                fusions.add(message)
        return message

    def begin(self, key: Identity = LAPTOP) -> str:
        return self.say(key, begin_content(key.ref, SECRET)).id

    def fusion(self, key: Identity, root: str) -> Fusion:
        found = self.known[key.ref].get(root)
        assert found is not None
        return found

    def join(self, root: str, key: Identity, by: Identity = LAPTOP, **how: bool) -> None:
        """Invite, consent and prove; each hears of the others' messages."""
        self.say(by, invite_content(self.fusion(by, root), by.ref, [key.ref]))
        consent = self.say(key, consent_content(self.fusion(key, root), key.ref))
        self.say(key, proof_content(self.fusion(key, root), SECRET, Consent(key.ref, consent.id)))


def members(messages: list[Message], root: str) -> frozenset[str]:
    fusions = Fusions()
    for message in messages:
        fusions.add(message)
    found = fusions.get(root)
    return frozenset() if found is None else found.members


def refs(*keys: Identity) -> frozenset[str]:
    return frozenset(key.ref for key in keys)


def test_a_device_is_invited_consents_and_proves_that_it_has_the_key():
    feeds = Feeds()
    root = feeds.begin()
    assert members(feeds.all, root) == refs(LAPTOP)
    feeds.join(root, PHONE)
    assert [members(feeds.all[:count], root) for count in range(5)] == [
        refs(),
        *[refs(LAPTOP)] * 3,
        refs(LAPTOP, PHONE),
    ]
    feeds.join(root, TABLET, by=PHONE)
    assert members(feeds.all, root) == refs(LAPTOP, PHONE, TABLET)
    fusions = feeds.known[OTHER.ref]
    assert fusions.devices(TABLET.ref) == fusions.devices(LAPTOP.ref)
    assert fusions.devices(TABLET.ref)[0] == LAPTOP.ref
    assert set(fusions.devices(TABLET.ref)) == refs(LAPTOP, PHONE, TABLET)
    assert fusions.devices(OTHER.ref) == (OTHER.ref,)


def test_a_member_ends_a_fusion_whatever_was_written_beside_it():
    feeds = Feeds()
    root = feeds.begin()
    feeds.join(root, PHONE)
    before = feeds.fusion(PHONE, root)
    late = invite_content(before, PHONE.ref, [THIEF.ref])
    feeds.say(LAPTOP, tombstone_content(before, LAPTOP.ref, 1e12, "stolen"))
    feeds.say(PHONE, late)  # names nothing after the tombstone
    for phase in (feeds.all, feeds.all[::-1]):
        assert members(phase, root) == refs()
    assert feeds.known[OTHER.ref].devices(PHONE.ref) == (PHONE.ref,)
    assert feeds.fusion(OTHER, root).is_ended


@pytest.mark.parametrize("backwards", [True, False])
def test_what_its_author_did_not_know_does_not_count_against_a_message(backwards):
    """The phone consents twice, as one device of its own may that has lost the first message."""
    feeds = Feeds()
    root = feeds.begin()
    feeds.say(LAPTOP, invite_content(feeds.fusion(LAPTOP, root), LAPTOP.ref, [PHONE.ref]))
    content = consent_content(feeds.fusion(PHONE, root), PHONE.ref)
    feeds.say(PHONE, content)
    second = feeds.say(PHONE, content)
    proof = proof_content(feeds.fusion(PHONE, root), SECRET, Consent(PHONE.ref, second.id))
    feeds.say(PHONE, proof)
    there = members(feeds.all[::-1] if backwards else feeds.all, root)
    assert there == refs(LAPTOP, PHONE)


def test_a_removed_device_brings_nobody_in():
    """The phone has the key of the ended fusion; the laptop begins another one with the tablet."""
    feeds = Feeds()
    root = feeds.begin()
    feeds.join(root, PHONE)
    feeds.join(root, TABLET)
    feeds.say(LAPTOP, tombstone_content(feeds.fusion(LAPTOP, root), LAPTOP.ref, 1e12, "stolen"))
    second = feeds.say(LAPTOP, begin_content(LAPTOP.ref, OTHER)).id
    feeds.say(PHONE, invite_content(feeds.fusion(PHONE, second), PHONE.ref, [THIEF.ref]))
    for fusion in (root, second):
        consent = feeds.say(THIEF, consent_content(feeds.fusion(THIEF, fusion), THIEF.ref))
        proof = proof_content(feeds.fusion(THIEF, fusion), SECRET, Consent(THIEF.ref, consent.id))
        feeds.say(THIEF, proof)
    assert members(feeds.all, root) == refs()
    assert members(feeds.all, second) == refs(LAPTOP)


def _stranger_invites(feeds, root):
    feeds.say(THIEF, invite_content(feeds.fusion(THIEF, root), THIEF.ref, [OTHER.ref]))
    feeds.join(root, OTHER, by=THIEF)


def _invites_itself(feeds, root):
    feeds.join(root, THIEF, by=THIEF)


def _no_consent(feeds, root):
    feeds.say(LAPTOP, invite_content(feeds.fusion(LAPTOP, root), LAPTOP.ref, [THIEF.ref]))
    invite = feeds.all[-1].id
    feeds.say(THIEF, proof_content(feeds.fusion(THIEF, root), SECRET, Consent(THIEF.ref, invite)))


def _declines(feeds, root):
    feeds.say(LAPTOP, invite_content(feeds.fusion(LAPTOP, root), LAPTOP.ref, [THIEF.ref]))
    said = feeds.say(THIEF, consent_content(feeds.fusion(THIEF, root), THIEF.ref, declines=True))
    feeds.say(THIEF, proof_content(feeds.fusion(THIEF, root), SECRET, Consent(THIEF.ref, said.id)))


def _wrong_key(feeds, root):
    feeds.say(LAPTOP, invite_content(feeds.fusion(LAPTOP, root), LAPTOP.ref, [THIEF.ref]))
    said = feeds.say(THIEF, consent_content(feeds.fusion(THIEF, root), THIEF.ref))
    feeds.say(THIEF, proof_content(feeds.fusion(THIEF, root), THIEF, Consent(THIEF.ref, said.id)))


def _anothers_proof(feeds, root):
    feeds.say(LAPTOP, invite_content(feeds.fusion(LAPTOP, root), LAPTOP.ref, [THIEF.ref]))
    feeds.join(root, OTHER)
    proof = feeds.all[-1].content | {"members": {THIEF.ref: 1}}
    feeds.say(THIEF, consent_content(feeds.fusion(THIEF, root), THIEF.ref))
    feeds.say(THIEF, proof)


def _consents_for_another(feeds, root):
    feeds.say(LAPTOP, invite_content(feeds.fusion(LAPTOP, root), LAPTOP.ref, [OTHER.ref]))
    said = feeds.say(THIEF, consent_content(feeds.fusion(THIEF, root), OTHER.ref))
    feeds.say(THIEF, proof_content(feeds.fusion(THIEF, root), SECRET, Consent(OTHER.ref, said.id)))


def _names_nothing(feeds, root):
    _wrong = invite_content(feeds.fusion(LAPTOP, root), LAPTOP.ref, [THIEF.ref])
    _wrong["tangles"]["fusion"]["previous"] = []
    feeds.say(LAPTOP, _wrong)
    said = feeds.say(THIEF, consent_content(feeds.fusion(THIEF, root), THIEF.ref))
    feeds.say(THIEF, proof_content(feeds.fusion(THIEF, root), SECRET, Consent(THIEF.ref, said.id)))


def _stranger_ends(feeds, root):
    feeds.say(THIEF, tombstone_content(feeds.fusion(THIEF, root), THIEF.ref, 1e12, ""))


def _copies_the_id(feeds, root):
    feeds.say(THIEF, begin_content(THIEF.ref, SECRET))


@pytest.mark.parametrize(
    "attack",
    [
        _stranger_invites,
        _invites_itself,
        _no_consent,
        _declines,
        _wrong_key,
        _anothers_proof,
        _consents_for_another,
        _names_nothing,
        _stranger_ends,
        _copies_the_id,
    ],
)
def test_nobody_is_admitted_or_removed_by(attack):
    feeds = Feeds()
    root = feeds.begin()
    feeds.join(root, PHONE)
    attack(feeds, root)
    there = members(feeds.all, root)
    assert refs(LAPTOP, PHONE) <= there
    assert THIEF.ref not in there
    assert members(feeds.all[::-1], root) == there


@pytest.mark.parametrize(
    "change",
    [
        {"id": "ssb:identity/fusion/AAAA"},
        {"id": 7},
        {"id": None},
        {"members": {PHONE.ref: 1}},
        {"members": {LAPTOP.ref: 1, PHONE.ref: 1}},
        {"members": {LAPTOP.ref: True}},
        {"members": {LAPTOP.ref: 0}},
        {"members": [LAPTOP.ref]},
        {"subtype": "fusion/invite"},
        {"tangles": {}},
        {"tangles": {"fusion": {"root": None}}},
        {"tangles": []},
        {"type": "post"},
    ],
)
def test_what_begins_no_fusion(change):
    fusions = Fusions()
    message = Message.create(LAPTOP, None, begin_content(LAPTOP.ref, SECRET) | change, 1)
    assert fusions.add(message) == {}
    assert fusions.get(message.id) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([*[key.ref for key in KEYS], "", "%"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["fusion", "root", "previous", "set", *[key.ref for key in KEYS]]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@settings(max_examples=300)
@given(
    st.sampled_from(["fusion/invite", "fusion/consent", "fusion/proof-of-key", "fusion/init", None, 3]),
    st.dictionaries(
        st.sampled_from(["id", "members", "invited", "consented", "consentId", "proofOfKey", "tombstone"]),
        JSON,
    ),
    JSON,
    st.sampled_from(KEYS),
)
def test_any_content_is_taken_or_ignored(kind, content, tangles, author):
    """A stranger's whole content changes nothing, and a member's admits nobody at once."""
    feeds = Feeds()
    root = feeds.begin()
    tip = feeds.tips.get(author.ref)
    place = {"fusion": {"root": root, "previous": [root]}}
    for where in (tangles, place):
        said = {**content, "type": "fusion", "subtype": kind, "tangles": where}
        message = Message.create(author, tip, said, 1)
        there = members([*feeds.all, message], root)
        assert there <= refs(LAPTOP)
        assert there or author is LAPTOP


def at_once(steps: list[tuple[int, int, int, int]]) -> tuple[list[Message], list[str]]:
    """Steps by authors who have each heard of some messages of each other only."""
    feeds = Feeds()
    roots: list[str] = []
    for kind, number, other, hears in steps:
        key, invited = KEYS[number], KEYS[other]
        known = feeds.known[key.ref]
        for message in feeds.all[: hears * len(feeds.all) // 4]:
            known.add(message)
        fusion = next((known.get(root) for root in roots if known.get(root) is not None), None)
        if fusion is None:
            roots.append(feeds.say(key, begin_content(key.ref, SECRET), told=False).id)
        elif kind == 0:
            feeds.say(key, invite_content(fusion, key.ref, [invited.ref]), told=False)
        elif kind == 1:
            feeds.say(key, consent_content(fusion, key.ref), told=False)
        elif kind == 2:
            for consent in sorted(fusion.consents):
                if consent.feed == key.ref:
                    feeds.say(key, proof_content(fusion, SECRET, consent), told=False)
        elif kind == 3 and other == 0:
            feeds.say(key, tombstone_content(fusion, key.ref, 1, ""), told=False)
    return feeds.all, roots


def by_the_text(messages: list[Message], root: str) -> frozenset[str]:
    """Members by the rules, each message judged from nothing by all that it leads back to."""
    here = {message.id: message for message in messages}

    def named(message):
        return message.content["tangles"]["fusion"]["previous"] or []

    def past(message):
        found = {}
        for each in named(message):
            if each in here:
                found |= {each: here[each]} | past(here[each])
        return found

    def is_whole(message):
        return all(each in here and is_whole(here[each]) for each in named(message))

    def is_valid(message):
        if message.id == root:
            return True
        before = past(message).values()
        if root not in past(message) or not is_whole(message) or not all(map(is_valid, before)):
            return False
        said = [(each.author, each.content) for each in before]
        ended = any("tombstone" in content for _, content in said)
        joined = {a for a, content in said if "members" in content}
        invited = {feed for _, content in said for feed in content.get("invited", ())}
        agreed = {a for a, content in said if 1 in content.get("consented", {}).values()}
        author, content = message.author, message.content
        if ended:
            return False
        if "tombstone" in content:
            return author in joined
        if "invited" in content:
            return author in joined and author not in content["invited"]
        if "consented" in content:
            return author in invited - joined - agreed
        given = here.get(content["consentId"])
        return given is not None and given.author == author and given.id in past(message)

    valid = [m for m in messages if m.id in here and is_valid(m) and (m.id == root or root in past(m))]
    if any("tombstone" in message.content for message in valid):
        return frozenset()
    return frozenset(message.author for message in valid if "members" in message.content)


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 1, 2, 2, 3]), st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.randoms(use_true_random=False), st.integers(0, 4))
def test_members_follow_from_the_set_of_messages(steps, rng, share):
    """Whatever order they come in, and also of some of them; as the rules say."""
    messages, roots = at_once(steps)
    messages = messages[: len(messages) * (share + 1) // 5]
    shuffled = messages.copy()
    rng.shuffle(shuffled)
    first, second = Fusions(), Fusions()
    followed: dict[str, frozenset[str]] = {}
    for message in messages:
        followed |= first.add(message)
    for message in [*shuffled, *shuffled]:
        second.add(message)
    for root in roots:
        expected = by_the_text(messages, root) if root in {m.id for m in messages} else frozenset()
        for fusions in (first, second):
            found = fusions.get(root)
            assert (frozenset() if found is None else found.members) == expected
        if first.get(root) is not None:
            for key in KEYS:
                assert first.get(root).previous(key.ref) == second.get(root).previous(key.ref)
    for key in KEYS:
        devices = first.devices(key.ref)
        assert devices == second.devices(key.ref)
        assert followed.get(key.ref, frozenset({key.ref})) == frozenset(devices)
        assert all(first.devices(each) == devices for each in devices)
    assert first.identities() == second.identities()


def test_the_steps_of_the_property_admit_and_end():
    """The steps above lead to identities of several feeds, and to ended ones."""
    messages, (root, *_) = at_once([(0, 0, 1, 4), (0, 0, 1, 4), (1, 1, 0, 4), (2, 1, 0, 4)])
    assert members(messages, root) == refs(LAPTOP, PHONE)
    messages, (root, *_) = at_once([(0, 0, 1, 4), (3, 0, 0, 4)])
    assert members(messages, root) == refs()


def test_an_identity_has_a_greatest_number_of_devices():
    """A member who invites more admits nobody; more feeds in several fusions are no identity."""
    many = [Identity.from_seed(bytes([number, 7]) * 16) for number in range(MOST_DEVICES + 1)]
    feeds = Feeds()
    feeds.known |= {key.ref: Fusions() for key in many}
    root = feeds.begin(many[0])
    feeds.say(many[0], invite_content(feeds.fusion(LAPTOP, root), many[0].ref, [key.ref for key in many[1:]]))
    assert not feeds.fusion(LAPTOP, root).invites
    feeds.say(
        many[0], invite_content(feeds.fusion(LAPTOP, root), many[0].ref, [key.ref for key in many[1:-1]])
    )
    for key in many[1:-1]:
        consent = feeds.say(key, consent_content(feeds.fusion(LAPTOP, root), key.ref))
        feeds.say(key, proof_content(feeds.fusion(LAPTOP, root), SECRET, Consent(key.ref, consent.id)))
    assert len(feeds.known[OTHER.ref].devices(many[0].ref)) == MOST_DEVICES
    second = feeds.begin(many[0])
    fusion = feeds.fusion(LAPTOP, second)
    feeds.say(many[0], invite_content(fusion, many[0].ref, [many[-1].ref]))
    consent = feeds.say(many[-1], consent_content(fusion, many[-1].ref))
    feeds.say(many[-1], proof_content(fusion, SECRET, Consent(many[-1].ref, consent.id)))
    assert fusion.members == refs(many[0], many[-1])
    assert all(feeds.known[OTHER.ref].devices(key.ref) == (key.ref,) for key in many)


@pytest.mark.parametrize("backwards", [True, False])
def test_the_newest_fusions_of_a_founder_count(backwards):
    """In whatever order they came; the members of the others are on their own."""
    feeds = Feeds()
    first = feeds.begin()
    feeds.join(first, PHONE)
    roots = [feeds.begin() for _ in range(MOST_BEGUN - 1)]
    fusions = Fusions()
    for message in feeds.all[::-1] if backwards else feeds.all:
        fusions.add(message)
    assert fusions.devices(PHONE.ref) == (LAPTOP.ref, PHONE.ref)
    roots.append(feeds.begin())
    followed = fusions.add(feeds.all[-1])
    fusions.add(feeds.all[0])
    assert [root for root in (first, *roots) if fusions.get(root)] == roots
    assert followed == {key.ref: refs(key) for key in (LAPTOP, PHONE)}
    assert fusions.identities() == {}
    again = Fusions()
    for message in feeds.all[::-1] if backwards else feeds.all:
        again.add(message)
    assert [root for root in (first, *roots) if again.get(root)] == roots
    assert again.identities() == {}


def many(count: int, mark: int) -> list[str]:
    return [Identity.from_seed(bytes([mark]) * 30 + number.to_bytes(2)).ref for number in range(count)]


def test_invited_feeds_are_those_of_the_nearest_and_few_of_each():
    """A far feed invites hundreds, beside each other; the near one's invitation counts all the same."""
    feeds = Feeds()
    far, near = feeds.begin(THIEF), feeds.begin(LAPTOP)
    for feed in many(100, 1):
        content = invite_content(feeds.fusion(THIEF, far), THIEF.ref, [feed])
        content["tangles"]["fusion"]["previous"] = [far]
        feeds.say(THIEF, content)
    feeds.say(LAPTOP, invite_content(feeds.fusion(LAPTOP, near), LAPTOP.ref, [PHONE.ref]))
    fusions = feeds.known[OTHER.ref]
    assert len(fusions.get(far).invites) == 100
    hops = {OTHER.ref: 0, LAPTOP.ref: 1, THIEF.ref: 2}
    found = fusions.invited(hops)
    assert PHONE.ref in found
    assert len(found) == 1 + MOST_DEVICES
    assert fusions.invited({LAPTOP.ref: 0}) == {PHONE.ref}
    assert fusions.invited({OTHER.ref: 0}) == set()
    consent = feeds.say(PHONE, consent_content(feeds.fusion(PHONE, near), PHONE.ref))
    proof = proof_content(feeds.fusion(PHONE, near), SECRET, Consent(PHONE.ref, consent.id))
    feeds.say(PHONE, proof)
    assert fusions.invited({LAPTOP.ref: 0}) == set()


def test_few_of_very_many_invited_feeds_are_replicated():
    """Forty founders with sixteen invitations each are nearer than one more."""
    fusions, hops = Fusions(), {}
    for number in range(40):
        key = Identity.from_seed(bytes([number, 5]) * 16)
        hops[key.ref] = number
        begun = Message.create(key, None, begin_content(key.ref, SECRET), 1)
        fusions.add(begun)
        fusion = fusions.get(begun.id)
        invited = many(MOST_DEVICES - 1, 100 + number)
        fusions.add(Message.create(key, begun, invite_content(fusion, key.ref, invited), 1))
    found = fusions.invited(hops)
    assert len(found) == MOST_INVITED
    assert set(many(MOST_DEVICES - 1, 100)) <= found
    assert not found & set(many(MOST_DEVICES - 1, 139))


def test_a_message_names_few_heads_and_what_gives_its_author_the_right():
    """Of hostile heads as many as leave room; the author's own right is among them."""
    feeds = Feeds()
    root = feeds.begin()
    feeds.join(root, PHONE)
    feeds.say(LAPTOP, invite_content(feeds.fusion(LAPTOP, root), LAPTOP.ref, [TABLET.ref]))
    fusion = feeds.fusion(OTHER, root)
    for feed in many(100, 2):
        content = invite_content(fusion, LAPTOP.ref, [feed])
        content["tangles"]["fusion"]["previous"] = [root]
        feeds.say(LAPTOP, content)
    for _ in range(100):
        content = invite_content(fusion, LAPTOP.ref, [PHONE.ref])
        content["tangles"]["fusion"]["previous"] = [root]
        feeds.say(LAPTOP, content)
    feeds.say(PHONE, invite_content(fusion, PHONE.ref, many(5, 3)))
    assert fusion.is_valid(feeds.all[-1].id)
    consent = feeds.say(TABLET, consent_content(fusion, TABLET.ref))
    assert len(consent.content["tangles"]["fusion"]["previous"]) <= MOST_NAMED
    feeds.say(TABLET, proof_content(fusion, SECRET, Consent(TABLET.ref, consent.id)))
    assert fusion.members == refs(LAPTOP, PHONE, TABLET)
    feeds.say(PHONE, tombstone_content(fusion, PHONE.ref, 1e12, ""))
    assert fusion.is_ended
    assert members(feeds.all[::-1], root) == refs()


def test_the_key_is_read_from_an_entrusting_content_if_it_is_the_fusions():
    feeds = Feeds()
    fusion = feeds.fusion(LAPTOP, feeds.begin())
    content = entrust_content(fusion, SECRET, LAPTOP.ref, None)
    assert key_in(content, fusion) == SECRET
    other = feeds.fusion(THIEF, feeds.begin(THIEF))
    wrong = [{"rootId": other.root}, {"secretKey": "AAAA"}, {"secretKey": 1}, {"type": "post"}]
    wrong.append({"secretKey": THIEF.secret().removesuffix(".ed25519")})
    assert [key_in(content | change, fusion) for change in wrong] == [None] * len(wrong)


# The graph

PEOPLE = [key.ref for key in KEYS] + [Identity.from_seed(bytes([number]) * 32).ref for number in (7, 8)]
SAYS = {
    Relation.FOLLOWS: {"following": True},
    Relation.BLOCKS: {"blocking": True},
    Relation.UNFOLLOWED: {"following": False},
}
IDENTITIES = st.lists(st.sampled_from([0, 1, 2, 3]), min_size=len(PEOPLE), max_size=len(PEOPLE)).map(
    lambda marks: {
        feed: frozenset(
            other for other, m in zip(PEOPLE, marks, strict=True) if other == feed or (m == mark and mark < 2)
        )
        for feed, mark in zip(PEOPLE, marks, strict=True)
    }
)
SAID = st.tuples(
    st.sampled_from(PEOPLE), st.sampled_from(PEOPLE), st.sampled_from([*Relation, Relation.FOLLOWS])
)


def holds(said, identities, author, feed):
    """The statement that holds, from the rules alone."""
    firmest = [Relation.BLOCKS, Relation.FOLLOWS, Relation.UNFOLLOWED]
    if (author, feed) in said:
        return said[author, feed]
    if feed in identities[author]:
        return None if author == feed else Relation.FOLLOWS
    for by in ([author], identities[author]):
        found = []
        for one in by:
            about = [feed] if (one, feed) in said else identities[feed]
            found += [said[one, each] for each in about if (one, each) in said]
        if found:
            return min(found, key=firmest.index)
    return None


def test_a_follow_or_block_of_one_device_holds_for_the_other():
    me, laptop, phone, friend = PEOPLE[:4]
    graph = Graph(me, 1)
    for number, (author, about, relation) in enumerate(
        [(me, laptop, Relation.FOLLOWS), (friend, phone, Relation.BLOCKS)], 1
    ):
        graph.add_content(author, number, {"type": "contact", "contact": about, **SAYS[relation]})
    both = frozenset({laptop, phone})
    graph.unite({laptop: both, phone: both})
    assert graph.replicated() == {me, laptop, phone}
    assert sorted(graph.blocks()) == sorted([(friend, laptop), (friend, phone)])
    graph.unite({laptop: frozenset({laptop}), phone: frozenset({phone})})
    assert graph.replicated() == {me, laptop}
    assert [*graph.blocks()] == [(friend, phone)]


@settings(max_examples=300, deadline=None)
@given(st.lists(SAID | IDENTITIES, max_size=25), st.integers(0, 3))
def test_the_graph_treats_devices_as_one(happenings, max_hops):
    """As in a graph in which each feed has said all that holds for it; also when identities change."""
    me, said = PEOPLE[0], {}
    identities = {feed: frozenset({feed}) for feed in PEOPLE}
    graph = Graph(me, max_hops)
    replicated = set(graph.take_changes().added)
    blocked: set[tuple[str, str]] = set()
    for number, each in enumerate(happenings, 1):
        if isinstance(each, dict):
            graph.unite({feed: now for feed, now in each.items() if now != identities[feed]})
            identities = each
        else:
            author, about, relation = each
            said[author, about] = relation
            graph.add_content(author, number, {"type": "contact", "contact": about, **SAYS[relation]})
        added, removed = graph.take_changes()
        replicated = (replicated | added) - removed
        for author, feed in graph.take_restated():
            pair = {(author, feed)}
            blocked = blocked | pair if graph.is_blocked(feed, by=author) else blocked - pair
    assert replicated == graph.replicated()
    assert blocked == set(graph.blocks())
    expected = Graph(me, max_hops)
    for author in PEOPLE:
        for feed in PEOPLE:
            relation = holds(said, identities, author, feed)
            assert graph.relation(author, feed) == relation
            if relation is not None:
                expected.add_content(author, 1, {"type": "contact", "contact": feed, **SAYS[relation]})
    again = Graph(me, max_hops)
    again.restore(graph.statements(), graph.ends(), {f: d for f, d in identities.items() if len(d) > 1})
    for one in (graph, again):
        assert one.hops() == one.hops(me) == expected.hops()
        assert sorted(one.blocks()) == sorted(expected.blocks())


CAUGHT_BY = {
    "strangers invite and end": lambda: [
        test_nobody_is_admitted_or_removed_by(attack) for attack in (_stranger_ends, _stranger_invites)
    ],
    "no consent is needed": lambda: test_nobody_is_admitted_or_removed_by(_no_consent),
    "any proof counts": lambda: test_nobody_is_admitted_or_removed_by(_wrong_key),
    "an end is none beside other messages": test_a_member_ends_a_fusion_whatever_was_written_beside_it,
    "a message is judged by all that came before it": lambda: (
        test_what_its_author_did_not_know_does_not_count_against_a_message(False)
    ),
    "nothing waits": test_a_member_ends_a_fusion_whatever_was_written_beside_it,
    "statements of devices are apart": test_a_follow_or_block_of_one_device_holds_for_the_other,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_caught(name):
    with mutated(name, MUTANTS), pytest.raises(AssertionError):
        CAUGHT_BY[name]()
