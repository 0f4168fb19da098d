"""The observers of classic NDN: each must see what it is for, and nothing else."""

import pytest

from base.units import MS
from forwarder.links.link import LinkService
from forwarder.tables.face import Face
from forwarder.wire.lp import DUPLICATE, NO_ROUTE, make_lp
from forwarder.wire.name import IMPLICIT_DIGEST, component, from_uri
from forwarder.wire.packet import make_data, make_interest, parse_data
from forwarder.wire.persistent import make_persistent
from testbed.verify.classic.exchanges import Exchanges
from testbed.verify.kit.outcome import Violation
from testbed.verify.push.world.frames import read_packet
from testbed.verify.push.world.linkwatch import LinkWatch


class Node:
    """A node n between a, b and c, under observation."""

    def __init__(self, *probing: str) -> None:
        self.exchanges = Exchanges(frozenset(probing))

    def gets(self, peer: str, packet: bytes, now: int = 0) -> None:
        self.exchanges.arrived("n", peer, read_packet(packet), now)

    def sends(self, peer: str, packet: bytes, now: int = 0) -> None:
        self.exchanges.sent("n", peer, read_packet(packet), now)

    def may_not_send(self, peer: str, packet: bytes, why: str, now: int = 0) -> None:
        with pytest.raises(Violation, match=why):
            self.sends(peer, packet, now)


def interest(uri: str, nonce: int = 1, **fields: object) -> bytes:
    return make_interest(from_uri(uri), nonce=nonce, lifetime_ms=1000, **fields)  # type: ignore[arg-type]


def data(uri: str, freshness_ms: int = 0) -> bytes:
    return make_data(from_uri(uri), b"", freshness_ms=freshness_ms)


def nack(packet: bytes, reason: int = NO_ROUTE) -> bytes:
    return make_lp(packet, nack_reason=reason)


def test_an_interest_is_answered_once_and_in_time() -> None:
    node = Node()
    node.gets("b", data("/x"))
    node.may_not_send("a", data("/x"), "unasked")
    node.gets("a", interest("/x"))
    node.may_not_send("c", data("/x"), "unasked")
    node.may_not_send("a", data("/y"), "have not come from anywhere")
    node.may_not_send("a", data("/x"), "unasked", now=999 * MS)  # what is stored answers at once
    node.gets("b", data("/x"), now=999 * MS)
    node.sends("a", data("/x"), now=999 * MS)
    node.may_not_send("a", data("/x"), "unasked", now=999 * MS)
    node.gets("a", interest("/x", 2), now=1000 * MS)
    node.gets("b", data("/x"), now=2000 * MS)
    node.may_not_send("a", data("/x"), "unasked", now=2000 * MS)


def test_prefix_digest_and_persistence() -> None:
    node = Node()
    for uri in ("/x/1", "/x/2"):
        node.gets("b", data(uri))
    node.gets("a", interest("/x", can_be_prefix=True))
    node.sends("a", data("/x/1"))
    node.may_not_send("a", data("/x/2"), "unasked")
    full = from_uri("/x/1") + component(IMPLICIT_DIGEST, parse_data(data("/x/1")).digest())
    node.gets("a", make_interest(full, nonce=3, lifetime_ms=1000))
    node.may_not_send("a", data("/x/2"), "unasked")
    node.sends("a", data("/x/1"))
    node.gets("a", make_persistent(interest("/x", 2, can_be_prefix=True)))
    node.sends("a", data("/x/1"))
    node.sends("a", data("/x/2"))
    node.may_not_send("a", data("/x/2"), "unasked")


def test_who_wants_fresh_data_does_not_get_stale_ones() -> None:
    node = Node()
    node.gets("b", data("/x", freshness_ms=10))
    node.gets("a", interest("/x", must_be_fresh=True), now=9 * MS)
    node.sends("a", data("/x", freshness_ms=10), now=9 * MS)
    node.gets("a", interest("/x", 3, must_be_fresh=True), now=10 * MS)
    node.may_not_send("a", data("/x", freshness_ms=10), "unasked", now=10 * MS)
    node.gets("c", interest("/x", 2), now=50 * MS)
    node.sends("c", data("/x", freshness_ms=10), now=50 * MS)


def test_data_go_to_all_that_wait_and_not_back() -> None:
    node = Node()
    for nonce, peer in enumerate("abc"):
        node.gets(peer, interest("/x", nonce))
    node.gets("b", data("/x"), now=MS)
    node.may_not_send("b", data("/x"), "come from there", now=MS)
    node.sends("a", data("/x"), now=MS)
    with pytest.raises(Violation, match="withheld"):
        node.exchanges.check_settled("n", MS)
    node = Node()
    node.gets("a", interest("/x"))
    node.gets("b", data("/x"), now=MS)
    node.sends("a", data("/x"), now=MS)
    node.exchanges.check_settled("n", MS)


def test_an_interest_is_passed_on_from_one_face_and_never_back() -> None:
    node = Node()
    node.may_not_send("b", interest("/x"), "not come from anywhere")
    node.gets("a", interest("/x"))
    node.may_not_send("a", interest("/x"), "back")
    node.sends("b", interest("/x"))
    node.sends("c", interest("/x"))
    node.gets("a", interest("/x"))  # the link's duplicate
    node.sends("b", interest("/x"))
    node.may_not_send("b", interest("/x"), "3 times")
    node.gets("c", interest("/x"))
    node.may_not_send("b", interest("/x"), "once more")


def test_hop_limits_fall() -> None:
    node = Node()
    node.gets("a", interest("/x", hop_limit=2))
    node.may_not_send("b", interest("/x", hop_limit=2), "hop-limit")
    node.gets("a", interest("/y", hop_limit=1))
    node.may_not_send("b", interest("/y", hop_limit=0), "hop limit 0")
    node.gets("a", interest("/z", hop_limit=1))
    node.sends("an/application", interest("/z", hop_limit=0))


def test_a_probe_is_a_copy_for_somebody_else() -> None:
    node = Node("n")
    node.may_not_send("b", interest("/x", 9), "nobody else")
    node.gets("a", interest("/x", 1))
    node.may_not_send("a", interest("/x", 9), "nobody else")
    node.sends("b", interest("/x", 9))
    node.gets("c", interest("/x", 9))
    node.sends("c", nack(interest("/x", 9), DUPLICATE))


def test_a_refusal_waits_for_all_next_hops() -> None:
    node = Node()
    node.may_not_send("a", nack(interest("/x")), "does not have")
    node.gets("a", interest("/x"))
    node.sends("b", interest("/x"))
    node.sends("c", interest("/x"))
    node.gets("b", nack(interest("/x")))
    node.may_not_send("a", nack(interest("/x")), "c may still answer")
    node = Node()
    node.gets("a", interest("/x"))
    node.sends("c", interest("/x"))
    node.sends("a", nack(interest("/x")), now=1000 * MS)
    node.may_not_send("a", nack(interest("/x")), "does not have", now=1000 * MS)


def test_a_loop_is_refused_though_others_may_answer() -> None:
    node = Node()
    node.gets("a", interest("/x"))
    node.sends("b", interest("/x"))
    node.gets("c", interest("/x"))
    node.sends("c", nack(interest("/x"), DUPLICATE))


def watched(*, is_reliable: bool = True) -> tuple[LinkService, LinkService, LinkWatch, LinkWatch]:
    ends = []
    for sequence in (100, 200):
        face = Face(1)
        face.is_reliable = is_reliable
        ends.append(LinkService(256, sequence, face=face))
    there, back = (LinkWatch(a, b, 256, is_reliable=is_reliable) for a, b in ("ab", "ba"))
    there.back, back.back = back, there
    return *ends, there, back  # type: ignore[return-value]


PACKET = make_data(from_uri("/x"), bytes(500))


def test_fragments_make_the_packet_that_was_sent() -> None:
    near, _, there, _ = watched(is_reliable=False)
    frames = near.send(PACKET, 0)
    assert [there.read(frame, 0).kind for frame in frames] == ["fragment"] * (len(frames) - 1) + ["data"]
    come = [there.arrived(frame, 0) for frame in reversed(frames)]
    assert come[:-1] == [None] * (len(frames) - 1)
    assert come[-1] is not None
    assert come[-1].wire == PACKET
    with pytest.raises(Violation, match="has not sent"):
        there.arrived(data("/forged"), 0)


def test_a_repetition_is_known_and_bounded() -> None:
    near, _, there, _ = watched()
    (frame,) = near.send(data("/x"), 0)
    assert there.read(frame, 0).kind == "data"
    assert there.dated(frame, 7) == 7
    for _ in range(3):
        assert there.read(frame, 0).kind == "repeat"
        assert there.dated(frame, 8) == 7, "what it says, it said at its first transmission"
    with pytest.raises(Violation, match="5 times"):
        there.read(frame, 0)


def test_only_what_has_come_is_acknowledged_and_counted() -> None:
    near, far, there, back = watched()
    (frame,) = near.send(data("/x"), 0)
    there.read(frame, 0)
    far.receive(frame, 0)
    far.wake(5 * MS)
    (ack,) = far.take_frames()
    with pytest.raises(Violation, match="has not come"):
        back.read(ack, 5 * MS)
    near.receive(ack, 5 * MS)
    with pytest.raises(Violation, match="0 have come"):
        there.check_ended(near)
    there.arrived(frame, 0)
    assert back.read(ack, 5 * MS).kind == "ack"
    there.check_ended(near)
