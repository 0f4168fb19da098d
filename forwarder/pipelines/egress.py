"""Sending: each packet with its counters, PIT record and link-layer header."""

from typing import Final

from forwarder.pipelines.tables import Tables
from forwarder.tables.face import CONTENT_STORE_FACE, Face, LinkType
from forwarder.tables.pit import OutRecord, PitEntry, compact
from forwarder.wire.lp import make_lp
from forwarder.wire.packet import Interest

_CLASSIC: Final = b"classic"  # all answers to classic Interests share a link as one stream


class Egress:
    """The packets to be sent, as (face, packet), in order."""

    def __init__(self, tables: Tables) -> None:
        self._faces = tables.faces
        self._dead_nonces = tables.dead_nonces
        self.counters = tables.counters
        self._outputs: list[tuple[int, bytes]] = []

    def take(self) -> list[tuple[int, bytes]]:
        """Return the packets to be sent, once."""
        outputs = self._outputs[:]
        self._outputs.clear()
        return outputs

    def send(self, face: int, packet: bytes) -> None:
        """Send a packet that is complete."""
        self._outputs.append((face, packet))

    def send_interest(
        self, entry: PitEntry, interest: Interest, nonce: int, out: int, expiry: int, now: int, mark: int = 0
    ) -> None:
        """Send an Interest, and record that in its entry; it is dropped if it has no hop left."""
        face = self._faces[out]
        if interest.hop_limit == 1 and not face.is_local:
            self.counters.hop_limit_reached += 1
            return
        if entry.out_records:
            sent = entry.out_record(out)
            if sent is not None:
                if sent.nonce != nonce:
                    self._dead_nonces.add(entry.key[0], sent.nonce, now)  # it may still go round a loop
                entry.drop_out_record(out)
        entry.out_records.append(OutRecord(out, nonce, now, expiry))
        face.touches.append(entry)
        if len(face.touches) > face.most_touches:
            compact(face)
        face.out_interests += 1
        packet = interest.next_hop_wire()
        if mark or face.local_fields or entry.tags is not None:
            packet = make_lp(
                packet,
                incoming_face=entry.in_records[-1].face if face.local_fields else None,
                non_discovery=entry.tags is not None and entry.tags.non_discovery,
                congestion_mark=mark,
            )
        self._outputs.append((out, packet))

    def send_data(
        self,
        face: Face,
        packet: bytes,
        token: bytes | None,
        now: int,
        mark: int = 0,
        origin: int = CONTENT_STORE_FACE,
        announcement: bytes | None = None,
    ) -> None:
        """Send Data that came in on the face `origin`, marked if the face's link has a queue."""
        face.out_data += 1
        pacer = face.pacer
        if pacer is not None:
            pacer.seen(_CLASSIC, now)
            if pacer.is_congested(now):
                mark = 1
        if mark or token is not None or face.local_fields or announcement is not None:
            packet = make_lp(
                packet,
                pit_token=token,
                congestion_mark=mark,
                incoming_face=origin if face.local_fields else None,
                announcement=announcement,
            )
        self._outputs.append((face.number, packet))

    def send_nack(self, face: Face, packet: bytes, reason: int, token: bytes | None) -> None:
        """Send a Nack for an Interest; on a shared link others may hear the Interest too, and know better."""
        if face.link_type is LinkType.POINT_TO_POINT:
            face.out_nacks += 1
            self._outputs.append((face.number, make_lp(packet, nack_reason=reason, pit_token=token)))
