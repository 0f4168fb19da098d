"""Deliberate bugs of classic forwarding and of clients: what stories of classic NDN must find."""

from collections.abc import Callable
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
from ssb_over_ndn.following.fetch import CongestionWindow, Fetcher
from ssb_over_ndn.layerings.pull import Question
from ssb_over_ndn.layerings.sync_log import LogMember
from testbed.verify.simulate.mutants import Patch, returns


def _unknown(original: Any) -> Callable[..., Any]:
    def has(self: DeadNonces, *rest: Any) -> bool:
        original(self, *rest)
        return False

    return has


def _back_too(original: Any) -> Callable[..., Any]:
    def on_data(self: DataPipeline, face: Face, *rest: Any) -> None:
        before, face.link_type = face.link_type, LinkType.AD_HOC
        original(self, face, *rest)
        face.link_type = before

    return on_data


def _not_lowered(original: Any) -> Callable[..., Any]:
    return lambda self: self.wire


def _not_renewed(original: Any) -> Callable[..., Any]:
    def extend(self: Pit, entry: PitEntry, expiry: int) -> None:
        if entry.deadline < 0:
            original(self, entry, expiry)

    return extend


def _once(original: Any) -> Callable[..., Any]:
    return lambda self, entry, face, intervals, now: entry.out_record(face) is None


def _stale(original: Any) -> Callable[..., Any]:
    def find(self: ContentStore, interest: Interest, now: int) -> Any:
        any_age = copy(interest)
        any_age.must_be_fresh = False
        return original(self, any_age, now)

    return find


def _first_nack(original: Any) -> Callable[..., Any]:
    def on_nack(self: NackPipeline, face: Face, packet: bytes, reason: int, now: int) -> None:
        entry = self.tables.pit.find(parse_interest(packet))
        original(self, face, packet, reason, now)
        if (
            entry is not None
            and entry in list(self.tables.pit)
            and any(out.nacked for out in entry.out_records)
        ):
            self.refuse(entry, reason, now)

    return on_nack


def _late_nack(original: Any) -> Callable[..., Any]:
    def refuse(self: NackPipeline, entry: PitEntry, *rest: Any) -> None:
        for record in entry.in_records:
            record.expiry = 1 << 62
        original(self, entry, *rest)

    return refuse


def _next_too(original: Any) -> Callable[..., Any]:
    def receive(self: Reliability, packet: LpPacket, now: int) -> Any:
        is_new = original(self, packet, now)
        if packet.tx_sequence is not None and packet.fragment:
            self._acks.append(packet.tx_sequence + 1)
        return is_new

    return receive


def _repeats_passed_on(original: Any) -> Callable[..., Any]:
    def receive(self: Reliability, packet: LpPacket, now: int) -> bool:
        original(self, packet, now)
        return True

    return receive


def _from_zero(original: Any) -> Callable[..., Any]:
    return lambda self, payload, first=0: original(self, payload)


def _by_index(original: Any) -> Callable[..., Any]:
    def add(self: Reassembler, frame: bytes, packet: LpPacket, *rest: Any) -> Any:
        one_for_all = copy(packet)
        one_for_all.sequence = packet.frag_index
        return original(self, frame, one_for_all, *rest)

    return add


def _down_to_nothing(original: Any) -> Callable[..., Any]:
    def congested(self: CongestionWindow, now: int, rtt: int) -> None:
        self.size /= 2

    return congested


def _any_way(original: Any) -> Callable[..., Any]:
    return lambda self, entry, face, interest, hops, is_scoped: hops


def _nack_as_well(original: Any) -> Callable[..., Any]:
    def on_data(self: DataPipeline, face: Face, packet: bytes, header: LpPacket | None, now: int) -> None:
        entries = [entry for entry in self.tables.pit.match(parse_data(packet)) if not entry.passed]
        records = [record for entry in entries for record in entry.in_records]
        original(self, face, packet, header, now)
        for record in records:
            requester = self.tables.faces[record.face]
            if record.expiry > now and requester is not face and not requester.is_local:
                self.egress.send_nack(requester, record.wire, NO_ROUTE, record.token)

    return on_data


CLASSIC_MUTANTS: dict[str, tuple[Patch, ...]] = {
    "PIT entry not removed after Data": (Patch(Pit, "remove", returns(None)),),
    "Data sent back": (Patch(DataPipeline, "receive", _back_too),),
    "Interest sent back": (Patch(NextHops, "allowed", _any_way),),
    "loops unseen": (
        Patch(PitEntry, "is_loop", returns(False)),
        Patch(DeadNonces, "has", _unknown),
    ),
    "nonces forgotten with their entries": (Patch(DeadNonces, "add", returns(None)),),
    "store taken for lasting": (Patch(ContentStore, "is_lasting", lambda _: property(lambda self: True)),),
    "hop limit not lowered": (Patch(Interest, "next_hop_wire", _not_lowered),),
    "lifetime not renewed": (Patch(Pit, "extend", _not_renewed),),
    "repetition suppressed for ever": (Patch(Suppression, "allows", _once),),
    "MustBeFresh ignored": (Patch(ContentStore, "find", _stale),),
    "first Nack passed on": (Patch(NackPipeline, "receive", _first_nack),),
    "Nack after Data": (Patch(DataPipeline, "receive", _nack_as_well),),
    "Nack after the lifetime": (Patch(NackPipeline, "refuse", _late_nack),),
    "acknowledged before it came": (Patch(Reliability, "receive", _next_too),),
    "repeated frames passed on": (Patch(Reliability, "receive", _repeats_passed_on),),
    "frames repeated without end": (Patch(reliability, "MAX_REPEATS", lambda _: 1 << 30),),
    "TxSequence begins at 0": (Patch(Reliability, "__init__", _from_zero),),
    "packets mixed in reassembly": (Patch(Reassembler, "add", _by_index),),
    "window never recovers": (Patch(CongestionWindow, "congested", _down_to_nothing),),
    "lost items not asked for again": (Patch(Fetcher, "wake", returns(None)),),
    "question asked once": (Patch(Question, "wake", returns([])),),
    "announcements told once": (Patch(LogMember, "_repeat_after", returns(None)),),
}
"""Bugs by name."""
