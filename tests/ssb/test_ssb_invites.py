"""Invites on both sides: what they allow, whatever a guest sends, and the guest, whatever a peer sends."""

from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.endpoint import Closed, Opened, Received, Send
from base.files import memory_directory
from ssb.applications.pubs import address_of
from ssb.canonical import Value
from ssb.daemon.account import Account
from ssb.daemon.local_peer import LocalPeer
from ssb.graph import CONTACT, Graph
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.access import InvalidInvite
from ssb.peer.invites import Guest, Invites, entry
from ssb.peer.options import PeerOptions
from ssb.store.feeds import StoreError
from ssb.store.memory import MemoryFeeds
from ssb.transport.address import Invite, PeerAddress
from ssb.transport.calls import Called, Calls
from ssb.transport.handshake import MAIN_NETWORK, ServerHandshake
from ssb.transport.muxrpc import ProtocolError
from ssb.transport.secure_stream import ChannelError, SecureStream

PUB, ANN, BEN = (Identity.from_seed(bytes([number]) * 32) for number in (1, 3, 4))
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
    """The model: a use counts if it is left, and the feed is a feed, not blocked, and not yet followed. A
    followed feed gets the same answer again, by any invite.
    """
    graph, feeds, invites = Graph(PUB.ref), MemoryFeeds(), Invites(uses)
    block = {"type": CONTACT, "contact": BLOCKED, "blocking": True}
    graph.add(feeds.publish(PUB, block, 0.0))
    left, answers = dict(uses), dict[str, Value]()
    for key, arguments, is_full in made:

        def publish(content: dict[str, Any], is_full: bool = is_full) -> Message:
            if is_full:
                raise StoreError("the disk is full")
            message = feeds.publish(PUB, content, 0.0)
            graph.add(message)
            return message

        feed = arguments[0]["feed"] if arguments not in BAD else None
        is_right = feed not in (None, BLOCKED) and key in left and (feed in answers or left[key] > 0)
        if is_right and (feed in answers or not is_full):
            answer = invites.use(key, arguments, graph, feeds, publish, 5.0)
            assert isinstance(answer, dict)
            assert answers.setdefault(feed, answer) == answer
            left[key] -= len(answers) > sum(uses.values()) - sum(left.values())
            [last] = feeds.after(PUB.ref, answer["value"]["sequence"] - 1, 1)
            assert (answer["key"], answer["timestamp"]) == (last.id, 5.0)
            assert answer["value"]["content"]["contact"] == feed
        else:
            with pytest.raises(StoreError if is_right else InvalidInvite):
                invites.use(key, arguments, graph, feeds, publish, 5.0)
        assert invites.uses == left
    written = [each.message.content["contact"] for each in feeds.after(PUB.ref, 1, 100)]
    assert written == [*answers]


def test_an_invite_does_not_undo_what_the_user_has_done_since() -> None:
    graph, feeds, invites = Graph(PUB.ref), MemoryFeeds(), Invites({"k1": 1, "k2": 1})

    def publish(content: dict[str, Any]) -> Message:
        message = feeds.publish(PUB, content, 0.0)
        graph.add(message)
        return message

    def use(key: str) -> Value:
        return invites.use(key, [{"feed": ANN.ref}], graph, feeds, publish, 5.0)

    use("k1")
    publish({"type": CONTACT, "contact": ANN.ref, "following": False})
    with pytest.raises(InvalidInvite, match="used up"):
        use("k1")
    use("k2")
    assert graph.is_following(PUB.ref, ANN.ref)


CUTS = st.lists(st.integers(0, 40), min_size=1, max_size=6)


@given(CUTS, st.booleans())
def test_a_guest_whose_connection_breaks_anywhere_gets_in_and_counts_once(
    cuts: list[int], restarts: bool
) -> None:
    """The connection breaks after some pieces of 37 bytes, of both directions; in the end it holds. The pub
    may start anew in between. Ben has the use that is left, and nobody else gets in.
    """
    with TemporaryDirectory(dir=memory_directory()) as place:
        account = Account(Path(place), identity=PUB)
        account.own.settle()
        pub = Entrance(account)
        invite = pub.local.invite(INVITE.address, 2, INVITE.seed)
        assert pub.left == 2
        for cut in [*cuts, 1000]:
            is_in = pub.talk(Guest(invite, ANN.ref, b"g" * 32), cut)
            assert account.own.tip == (pub.left == 1)
            if restarts:
                pub = Entrance(account)
        assert is_in
        assert (account.own.tip, pub.left) == (1, 1)
        assert pub.talk(Guest(invite, BEN.ref, b"g" * 32), 1000)
        assert (account.own.tip, pub.left) == (2, 0)
        with pytest.raises(InvalidInvite, match=r"^the invite is used up$"):
            pub.talk(Guest(invite, FEEDS[0], b"g" * 32), 1000)
        assert pub.talk(Guest(invite, ANN.ref, b"g" * 32), 1000), "it may ask again for ever"
        account.close()


class Entrance:
    """A pub that starts, and guests that talk with it."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.local = LocalPeer(account, PeerOptions(), Random(1), 0.0, 0)
        self.streams = count(-1, -1)

    @property
    def left(self) -> int:
        """Uses that are left, as the file says."""
        [left] = self.account.invites().values()
        return left

    def talk(self, guest: Guest, pieces: int) -> bool:
        """Let a guest talk until it is in, or some pieces were passed on; return whether it is in."""
        stream, passed = next(self.streams), 0
        self.local.on_stream(Opened(stream, ("h", 1)), 0)
        to_pub, to_guest = b"", b""
        while passed < pieces:
            to_pub += guest.take_output()
            for action in self.local.take_actions():
                if isinstance(action, Send) and action.stream == stream:
                    to_guest += action.data
            if not to_pub and not to_guest:
                break
            piece, to_pub = to_pub[:37], to_pub[37:]
            if piece:
                passed += 1
                self.local.on_stream(Received(stream, piece), 0)
            piece, to_guest = to_guest[:37], to_guest[37:]
            if piece and passed < pieces:
                passed += 1
                if guest.receive(piece):
                    return True
        self.local.on_stream(Closed(stream, "broken"), 0)
        return False


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
