"""Invites on both sides: what they allow, whatever a guest sends, and the guest, whatever a peer sends."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssb.applications.pubs import address_of
from ssb.graph import CONTACT, Graph
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.access import InvalidInvite
from ssb.peer.invites import Guest, Invites, entry
from ssb.store.feeds import StoreError
from ssb.transport.address import Invite, PeerAddress
from ssb.transport.calls import Called, Calls
from ssb.transport.handshake import MAIN_NETWORK, ServerHandshake
from ssb.transport.muxrpc import ProtocolError
from ssb.transport.secure_stream import ChannelError, SecureStream

PUB, KEY, ANN = (Identity.from_seed(bytes([number]) * 32) for number in (1, 2, 3))
FEEDS = [Identity.from_seed(bytes([10 + number]) * 32).ref for number in range(4)]
KEYS = ["k1", "k2", "k3"]
BAD = [[], [None], ["@x"], [{}], [{"feed": 7}], [{"feed": "@x.ed25519"}], [[{"feed": FEEDS[0]}]]]
BLOCKED = FEEDS[3]

tries = st.tuples(
    st.sampled_from([*KEYS, "other"]),
    st.one_of(st.sampled_from(FEEDS).map(lambda feed: [{"feed": feed}]), st.sampled_from(BAD)),
    st.booleans(),
)


@given(st.dictionaries(st.sampled_from(KEYS), st.integers(1, 3)), st.lists(tries, max_size=20))
def test_an_invite_works_as_often_as_it_says(uses: dict[str, int], made: list[Any]) -> None:
    """The model: a use counts if it is left, and the feed is a feed, not blocked, and not yet followed."""
    graph, invites = Graph(PUB.ref), Invites(uses)
    graph.add_content(PUB.ref, 1, {"type": CONTACT, "contact": BLOCKED, "blocking": True})
    log: list[Message] = []
    left, followed = dict(uses), set()
    for key, arguments, is_full in made:

        def publish(content: dict[str, Any], is_full: bool = is_full) -> Message:
            if is_full:
                raise StoreError("the disk is full")
            log.append(Message.create(PUB, log[-1] if log else None, content, 0.0))
            graph.add_content(PUB.ref, 1 + log[-1].sequence, content)
            return log[-1]

        feed = arguments[0]["feed"] if arguments not in BAD else None
        is_right = feed not in (None, BLOCKED) and feed not in followed and left.get(key, 0) > 0
        if is_right and not is_full:
            answer = invites.use(key, arguments, graph, publish, 5.0)
            assert isinstance(answer, dict)
            assert (answer["key"], answer["timestamp"]) == (log[-1].id, 5.0)
            assert answer["value"]["content"]["contact"] == feed
            followed.add(feed)
            left[key] -= 1
        else:
            with pytest.raises(StoreError if is_right else InvalidInvite):
                invites.use(key, arguments, graph, publish, 5.0)
        assert invites.uses == {each: count for each, count in left.items() if count}
    assert [each.content["contact"] for each in log] == [*dict.fromkeys(c.content["contact"] for c in log)]
    assert {each.content["contact"] for each in log} == followed


INVITE = Invite(PeerAddress("pub.example", 8008, PUB.ref), b"i" * 32)


def talk(answer: str, sizes: list[int]) -> list[bool]:
    """Let a guest talk with a peer that answers so; cut the peer's bytes in pieces of some sizes, in turn."""
    guest = Guest(INVITE, ANN.ref, b"g" * 32)
    heard: list[str] = []

    def admits(key: bytes) -> bool:
        heard.append(Identity.from_seed(INVITE.seed).ref)
        return key == Identity.from_seed(INVITE.seed).public_key

    peer, calls = SecureStream(ServerHandshake(PUB, MAIN_NETWORK, b"p" * 32, admits)), Calls()
    results: list[bool] = []
    for _ in range(10):
        for event in calls.receive(peer.receive(guest.take_output())):
            assert isinstance(event, Called)
            assert (event.name, event.form) == (("invite", "use"), "async")
            assert event.arguments == [{"feed": ANN.ref}]
            if answer == "yes":
                calls.answer(event.call, {"key": "k"})
            else:
                calls.end(event.call, answer)
        if peer.remote is not None:
            peer.send(calls.take_output())
        data = peer.take_output()
        for number in range(len(data)):
            size = sizes[number % len(sizes)]
            piece, data = data[:size], data[size:]
            if piece:
                results.append(guest.receive(piece))
    assert heard
    return results


@given(st.lists(st.integers(1, 400), min_size=1, max_size=5))
def test_a_guest_is_followed_however_the_bytes_are_cut(sizes: list[int]) -> None:
    results = talk("yes", sizes)
    assert results.index(True) >= len(results) - 2, "an answer may be followed by its end"
    with pytest.raises(InvalidInvite, match=r"^the invite is used up$"):
        talk("the invite is used up", sizes)


@given(st.binary(min_size=64, max_size=300))
def test_a_guest_takes_no_garbage(garbage: bytes) -> None:
    guest = Guest(INVITE, ANN.ref, b"g" * 32)
    guest.take_output()
    with pytest.raises((ChannelError, ProtocolError)):
        guest.receive(garbage)


def test_a_guest_publishes_that_it_follows_the_pub_and_where_the_pub_is() -> None:
    follow, address = entry(INVITE.address)
    assert follow == {"type": CONTACT, "contact": PUB.ref, "following": True}
    assert address_of(address) == INVITE.address
