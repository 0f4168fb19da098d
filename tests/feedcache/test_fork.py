"""Forks: the same verdict in whatever order the items come, and a proof that stands by itself."""

import pytest
from feed_maker import (
    CLASSIC,
    NATIVE,
    STRANGER,
    WRITER,
    Tree,
    classic,
    forked_at,
    make_classic,
    make_native,
    native,
    native_branch,
    native_packet,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from forwarder.feedcache.cache import FeedCache
from forwarder.feedcache.fork import Fork, assertions, dispute, open_fork
from forwarder.feedcache.items import Item, RejectedItem
from forwarder.wire.feed import FORK_PROOF, fork_name, item_name
from forwarder.wire.packet import Data, make_data, parse_data
from forwarder.wire.tlv import element
from ssb.message import Message

MAKERS = {NATIVE: make_native, CLASSIC: make_classic}
LEAVES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(1, 4)), min_size=0, max_size=3)


def offer_one(cache: FeedCache, item: Item) -> str | None:
    """Offer an item; return why it is refused, if it is."""
    try:
        cache.accept(item)
    except RejectedItem as error:
        return error.reason
    return None


def offer(feed: bytes, items: list[Item]) -> FeedCache:
    cache = FeedCache(feed, 100, 1 << 20)
    for item in items:
        reason = offer_one(cache, item)
        beyond = cache.fork is not None and item.seq >= cache.fork.seq
        assert reason == ("fork" if beyond else None)
    return cache


@settings(max_examples=150)
@given(st.sampled_from([NATIVE, CLASSIC]), st.integers(1, 6), LEAVES, st.data())
def test_the_verdict_depends_on_the_items_and_not_on_their_order(
    feed: bytes, trunk: int, leaves: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    tree = Tree(MAKERS[feed], trunk, leaves)
    items = data.draw(st.lists(st.sampled_from(tree.items()), unique_by=lambda item: item.id))
    cache = offer(feed, items)
    assert (cache.fork.seq if cache.fork is not None else None) == forked_at(items)
    for item in data.draw(st.permutations(items)):
        known = dict(assertions(item)).get(item.seq)
        below = cache.fork is None or item.seq < cache.fork.seq
        assert (cache.get(item.seq) is not None) == below
        if below:
            assert cache.id_of(item.seq) == known
    if cache.fork is not None:
        # Somebody who knows only the feed's name can check it, and comes to the same.
        packet = cache.fork.packet(feed)
        proven = open_fork(feed, parse_data(packet))
        assert proven.seq == cache.fork.seq
        assert proven.packet(feed) == packet
        assert cache.tip < cache.fork.seq


@settings(max_examples=60)
@given(st.sampled_from([NATIVE, CLASSIC]), st.integers(1, 6), LEAVES, st.data())
def test_what_a_node_learns_later_moves_the_verdict_only_down(
    feed: bytes, trunk: int, leaves: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    items = Tree(MAKERS[feed], trunk, leaves).items()
    cache = FeedCache(feed, 100, 1 << 20)
    verdicts = []
    for item in data.draw(st.permutations(items)):
        offer_one(cache, item)
        verdicts.append(cache.fork.seq if cache.fork is not None else 1 << 64)
    assert verdicts == sorted(verdicts, reverse=True)


@settings(max_examples=60)
@given(st.sampled_from([NATIVE, CLASSIC]), st.integers(1, 6), LEAVES, st.data())
def test_items_and_proofs_may_come_mixed(
    feed: bytes, trunk: int, leaves: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """A proof tells a node the two items in it, and the verdict is that on all it has been told."""
    items = Tree(MAKERS[feed], trunk, leaves).items()
    pairs = [(a, b) for a in items for b in items if a.id < b.id and dispute(a, b) is not None]
    told = data.draw(st.lists(st.sampled_from(items + pairs), unique=True, max_size=8))
    cache = FeedCache(feed, 100, 1 << 20)
    for news in told:
        if isinstance(news, Item):
            offer_one(cache, news)
        else:
            seq = dispute(*news)
            assert seq is not None
            cache.stop(open_fork(feed, parse_data(Fork(seq, *news).packet(feed))))
    seen = [item for news in told for item in ([news] if isinstance(news, Item) else news)]
    assert (cache.fork.seq if cache.fork is not None else None) == forked_at(seen)


def test_a_proof_is_held_against_what_is_known() -> None:
    """The node holds another item 1 than the one that the proof's item 2 continues."""
    held = native(1, b"", b"held")
    stem = native_branch([], 1, b"other")
    second = native_branch(stem, 1, b"a")[1]
    third = native(3, b"\1" * 32)
    cache = FeedCache(NATIVE, 100, 1 << 20)
    cache.accept(held)
    cache.stop(open_fork(NATIVE, parse_data(Fork(2, second, third).packet(NATIVE))))
    assert cache.fork is not None
    assert cache.fork.seq == forked_at([held, second, third]) == 1


def test_two_items_disagree_about_the_lower_number_first() -> None:
    first, second = native(5, b"\1" * 32), native(5, b"\2" * 32)
    assert dispute(first, second) == 4
    assert dispute(first, native(5, b"\1" * 32, b"other")) == 5
    assert dispute(first, native(6, first.id)) is None
    assert dispute(first, native(6, b"\1" * 32)) == 5
    assert dispute(first, native(4, b"\1" * 32)) == 4
    assert dispute(first, native(7, b"\1" * 32)) is None
    assert dispute(first, first) is None


def test_an_honest_feed_asserts_one_id_for_each_number() -> None:
    for make in (make_native, make_classic):
        items = make([], 6, 0)
        assert all(dispute(a, b) is None for a in items for b in items)
        assert assertions(items[0]) == [(1, items[0].id)]
        assert assertions(items[1]) == [(1, items[0].id), (2, items[1].id)]


def proof_of(feed: bytes, seq: int, packets: list[bytes], kind: int = FORK_PROOF) -> Data:
    return parse_data(make_data(fork_name(feed, seq), element(kind, b"".join(packets))))


TREE = Tree(make_native, 4, [(0, 2, 2)])
ONE, OTHER = TREE.branches[0][2], TREE.branches[1][2]  # two items 3
PACKETS = [ONE.data.wire, OTHER.data.wire]


def test_a_proof_is_the_same_packet_whoever_makes_it() -> None:
    assert Fork(3, ONE, OTHER).packet(NATIVE) == Fork(3, OTHER, ONE).packet(NATIVE)
    fork = open_fork(NATIVE, parse_data(Fork(3, ONE, OTHER).packet(NATIVE)))
    assert {fork.first.id, fork.second.id} == {ONE.id, OTHER.id}


FOREIGN = Fork(3, ONE, OTHER)._replace(second=native(4, b"\1" * 32))
ELSEWHERE = NATIVE[:-32] + STRANGER.public_key


@pytest.mark.parametrize(
    ("feed", "proof"),
    [
        (NATIVE, proof_of(NATIVE, 2, PACKETS)),
        (NATIVE, proof_of(NATIVE, 4, PACKETS)),
        (NATIVE, proof_of(NATIVE, 3, PACKETS[:1])),
        (NATIVE, proof_of(NATIVE, 3, [*PACKETS, PACKETS[0]])),
        (NATIVE, proof_of(NATIVE, 3, [])),
        (NATIVE, proof_of(NATIVE, 3, PACKETS[:1] * 2)),
        (NATIVE, proof_of(NATIVE, 3, PACKETS, kind=0xFA)),
        (NATIVE, proof_of(NATIVE, 3, [PACKETS[0], TREE.branches[0][3].data.wire])),
        (NATIVE, proof_of(NATIVE, 3, [PACKETS[0], PACKETS[1][:-1] + b"\0"])),
        (NATIVE, proof_of(NATIVE, 3, [PACKETS[0], native_packet(3, b"\1" * 32, writer=STRANGER).wire])),
        (NATIVE, proof_of(NATIVE, 3, [PACKETS[0], b"\5\1\1"])),
        (ELSEWHERE, proof_of(NATIVE, 3, PACKETS)),
        (NATIVE, proof_of(ELSEWHERE, 3, PACKETS)),
        (NATIVE, parse_data(make_data(item_name(NATIVE, 3), proof_of(NATIVE, 3, PACKETS).content))),
        (NATIVE, parse_data(make_data(fork_name(NATIVE, 3), b""))),
        (NATIVE, parse_data(make_data(fork_name(NATIVE, 3), proof_of(NATIVE, 3, PACKETS).content * 2))),
    ],
    ids=[
        "number too low",
        "number too high",
        "one item",
        "three items",
        "no item",
        "the same item twice",
        "another type",
        "no dispute",
        "altered",
        "not signed by the author",
        "an Interest",
        "asked about another feed",
        "named after another feed",
        "another name",
        "empty",
        "two proofs",
    ],
)
def test_what_proves_nothing_is_refused(feed: bytes, proof: Data) -> None:
    with pytest.raises(RejectedItem) as refused:
        open_fork(feed, proof)
    assert refused.value.reason == "proof"


HONEST = {NATIVE: make_native([], 5, 0), CLASSIC: make_classic([], 5, 0)}


@st.composite
def remade(draw: st.DrawFn, item: Item) -> bytes:
    """An honest item's packet with what anybody could change: parts that the author has not signed."""
    data = item.data
    inner = data.signed + element(23, data.signature)
    extra = element(draw(st.sampled_from([240, 0xFFF0, 32])), draw(st.binary(max_size=4)))
    change = draw(st.sampled_from(["nothing", "append", "prepend", "outer", "value", "meta", "sign", "flip"]))
    if change == "append":
        return element(6, inner + extra)
    if change == "prepend":
        return element(6, extra + inner)
    if change == "outer":
        size = draw(st.sampled_from([2, 4, 8]))
        return b"\6" + bytes((251 + size.bit_length(),)) + len(inner).to_bytes(size, "big") + inner
    if change == "value":
        return element(6, data.signed + b"\x17\xfd\0\x40" + data.signature)
    if change == "meta":
        return make_data(data.name, data.content, freshness_ms=draw(st.integers(0, 9)))
    if change == "sign":
        return element(6, data.signed + element(23, draw(st.binary(max_size=70))))
    if change == "flip":
        wire = bytearray(data.wire)
        wire[draw(st.integers(0, len(wire) - 1))] ^= 1 << draw(st.integers(0, 7))
        return bytes(wire)
    return data.wire


@settings(max_examples=300)
@given(st.sampled_from([NATIVE, CLASSIC]), st.data())
def test_nobody_can_accuse_an_honest_author(feed: bytes, data: st.DataObject) -> None:
    items = HONEST[feed]
    packets = [data.draw(remade(data.draw(st.sampled_from(items)))) for _ in range(2)]
    for seq in range(1, 6):
        with pytest.raises(RejectedItem):
            open_fork(feed, proof_of(feed, seq, packets))


@settings(max_examples=200)
@given(st.data())
def test_an_altered_proof_proves_the_same_or_nothing(data: st.DataObject) -> None:
    """A flip, a cut, an insertion anywhere in a proof: RejectedItem or the fork that there is."""
    content = bytearray(proof_of(NATIVE, 3, PACKETS).content)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, max(len(content) - 1, 0)))
        change = data.draw(st.sampled_from(["flip", "cut", "drop", "insert"]))
        if change == "flip" and content:
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        elif change == "cut":
            del content[at:]
        elif change == "drop":
            del content[at : at + 2]
        else:
            content[at:at] = data.draw(st.binary(max_size=4))
    check_opened(make_data(fork_name(NATIVE, data.draw(st.integers(1, 4))), bytes(content)))


@given(st.binary(max_size=200), st.lists(st.binary(max_size=60), max_size=3))
def test_any_bytes_are_a_proof_or_refused(junk: bytes, parts: list[bytes]) -> None:
    inner = b"".join(element(6, part) for part in parts)
    check_opened(make_data(fork_name(NATIVE, 3), junk))
    check_opened(make_data(fork_name(NATIVE, 3), element(FORK_PROOF, junk)))
    check_opened(make_data(fork_name(NATIVE, 3), element(FORK_PROOF, inner)))
    check_opened(make_data(NATIVE + junk, element(FORK_PROOF, b"".join(PACKETS))))


def check_opened(packet: bytes) -> None:
    try:
        fork = open_fork(NATIVE, parse_data(packet))
    except RejectedItem:
        return
    assert fork.seq == 3
    assert {fork.first.id, fork.second.id} == {ONE.id, OTHER.id}


def test_one_author_can_sign_the_same_message_in_two_feeds_without_a_fork() -> None:
    """A proof speaks of one feed: items of another of the same author's feeds are none of it."""
    message = Message.create(WRITER, None, {"type": "post", "text": "1"}, 1)
    with pytest.raises(RejectedItem):
        open_fork(NATIVE, proof_of(NATIVE, 1, [classic(message).data.wire, TREE.branches[0][0].data.wire]))
