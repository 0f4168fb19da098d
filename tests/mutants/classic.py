"""Deliberate bugs of classic forwarding and of clients: what stories of classic NDN must find."""

from copy import copy
from typing import Any

from forwarder.links import reliability
from forwarder.links.reassembly import Reassembler
from forwarder.links.reliability import Reliability
from forwarder.pipelines.data import DataPipeline
from forwarder.pipelines.nacks import NackPipeline
from forwarder.pipelines.next_hops import NextHops
from forwarder.strategies.suppression import Suppression
from forwarder.tables.content_store import ContentStore
from forwarder.tables.dead_nonces import DeadNonces
from forwarder.tables.face import Face, LinkType
from forwarder.tables.pit import Pit, PitEntry
from forwarder.wire.lp import NO_ROUTE, LpPacket
from forwarder.wire.packet import Interest, parse_data, parse_interest
from mutants.patches import Mutants, Patch, instead, returns
from ssb_over_ndn.following.fetch import CongestionWindow, Fetcher
from ssb_over_ndn.layerings.pull import Question
from ssb_over_ndn.sync.log_sync import LogMember


def _unknown(original: Any, self: DeadNonces, *rest: Any) -> bool:
    original(self, *rest)
    return False


def _back_too(original: Any, self: DataPipeline, face: Face, *rest: Any) -> None:
    before, face.link_type = face.link_type, LinkType.AD_HOC
    original(self, face, *rest)
    face.link_type = before


def _not_lowered(original: Any, self: Any) -> Any:
    return self.wire


def _not_renewed(original: Any, self: Pit, entry: PitEntry, expiry: int) -> None:
    if entry.deadline < 0:
        original(self, entry, expiry)


def _once(original: Any, self: Any, entry: Any, face: Any, intervals: Any, now: Any) -> Any:
    return entry.out_record(face) is None


def _stale(original: Any, self: ContentStore, interest: Interest, now: int) -> Any:
    any_age = copy(interest)
    any_age.must_be_fresh = False
    return original(self, any_age, now)


def _first_nack(original: Any, self: NackPipeline, face: Face, packet: bytes, reason: int, now: int) -> None:
    entry = self.tables.pit.find(parse_interest(packet))
    original(self, face, packet, reason, now)
    if entry in list(self.tables.pit) and any(out.nacked for out in entry.out_records):
        self.refuse(entry, reason, now)


def _late_nack(original: Any, self: NackPipeline, entry: PitEntry, *rest: Any) -> None:
    for record in entry.in_records:
        record.expiry = 1 << 62
    original(self, entry, *rest)


def _next_too(original: Any, self: Reliability, packet: LpPacket, now: int) -> Any:
    is_new = original(self, packet, now)
    if packet.tx_sequence is not None and packet.fragment:
        self._acks.append(packet.tx_sequence + 1)
    return is_new


def _repeats_passed_on(original: Any, self: Reliability, packet: LpPacket, now: int) -> bool:
    original(self, packet, now)
    return True


def _from_zero(original: Any, self: Any, payload: Any, first: Any = 0) -> Any:
    return original(self, payload)


def _by_index(original: Any, self: Reassembler, frame: bytes, packet: LpPacket, *rest: Any) -> Any:
    one_for_all = copy(packet)
    one_for_all.sequence = packet.frag_index
    return original(self, frame, one_for_all, *rest)


def _down_to_nothing(original: Any, self: CongestionWindow, now: int, rtt: int) -> None:
    self.size /= 2


def _any_way(
    original: Any, self: Any, entry: Any, face: Any, interest: Any, hops: Any, is_scoped: Any
) -> Any:
    return hops


def _nack_as_well(
    original: Any, self: DataPipeline, face: Face, packet: bytes, header: LpPacket | None, now: int
) -> None:
    entries = [entry for entry in self.tables.pit.match(parse_data(packet)) if not entry.passed]
    records = [record for entry in entries for record in entry.in_records]
    original(self, face, packet, header, now)
    for record in records:
        requester = self.tables.faces[record.face]
        if record.expiry > now and requester is not face and not requester.is_local:
            self.egress.send_nack(requester, record.wire, NO_ROUTE, record.token)


CLASSIC_MUTANTS: Mutants = {
    "PIT entry not removed after Data": (Patch(Pit, "remove", returns(None)),),
    "Data sent back": (instead(DataPipeline, "receive", _back_too),),
    "Interest sent back": (instead(NextHops, "allowed", _any_way),),
    "loops unseen": (
        Patch(PitEntry, "is_loop", returns(False)),
        instead(DeadNonces, "has", _unknown),
    ),
    "nonces forgotten with their entries": (Patch(DeadNonces, "add", returns(None)),),
    "store taken for lasting": (Patch(ContentStore, "is_lasting", lambda _: property(lambda self: True)),),
    "hop limit not lowered": (instead(Interest, "next_hop_wire", _not_lowered),),
    "lifetime not renewed": (instead(Pit, "extend", _not_renewed),),
    "repetition suppressed for ever": (instead(Suppression, "allows", _once),),
    "MustBeFresh ignored": (instead(ContentStore, "find", _stale),),
    "first Nack passed on": (instead(NackPipeline, "receive", _first_nack),),
    "Nack after Data": (instead(DataPipeline, "receive", _nack_as_well),),
    "Nack after the lifetime": (instead(NackPipeline, "refuse", _late_nack),),
    "acknowledged before it came": (instead(Reliability, "receive", _next_too),),
    "repeated frames passed on": (instead(Reliability, "receive", _repeats_passed_on),),
    "frames repeated without end": (Patch(reliability, "MAX_REPEATS", lambda _: 1 << 30),),
    "TxSequence begins at 0": (instead(Reliability, "__init__", _from_zero),),
    "packets mixed in reassembly": (instead(Reassembler, "add", _by_index),),
    "window never recovers": (instead(CongestionWindow, "congested", _down_to_nothing),),
    "lost items not asked for again": (Patch(Fetcher, "wake", returns(None)),),
    "question asked once": (Patch(Question, "wake", returns([])),),
    "announcements told once": (Patch(LogMember, "_repeat_after", returns(None)),),
}
"""Bugs by name."""
