"""Segmented datasets and the notification stream of the management.

NFD management protocol, StatusDataset and Notification. A dataset is generated on request, gets a version,
and is kept for a while for requests of its other segments. A notification has the next number of its stream.
"""

from collections import deque
from collections.abc import Iterator

from base.units import MS
from forwarder.wire.name import SEGMENT, SEQUENCE, VERSION, component
from forwarder.wire.packet import Interest, make_data
from forwarder.wire.tlv import nni

SEGMENT_BYTES = 8000
"""Content of a segment: with name and signature it stays below the 8800 bytes that a packet may have."""

FRESHNESS_MS = 1000

_KEPT_NS = 10_000 * MS
_KEPT_DATASETS = 16
_KEPT_SEGMENTS = 4096
_KEPT_NOTIFICATIONS = 64
_WAITING = 256


class Datasets:
    """Recently requested datasets, in segments."""

    def __init__(self) -> None:
        self._kept: dict[
            bytes, tuple[list[bytes], int]
        ] = {}  # name with version -> segments, since when (ns)
        self._version = 0

    def publish(self, name: bytes, content: bytes, now: int) -> bytes:
        """Return segment 0, a Data packet, of a new version of a dataset."""
        self._version = max(self._version + 1, now // MS)
        versioned = name + component(VERSION, nni(self._version))
        pieces = [content[at : at + SEGMENT_BYTES] for at in range(0, len(content), SEGMENT_BYTES)] or [b""]
        last = component(SEGMENT, nni(len(pieces) - 1))
        segments = [
            make_data(
                versioned + component(SEGMENT, nni(number)),
                piece,
                freshness_ms=FRESHNESS_MS,
                final_block=last,
            )
            for number, piece in enumerate(pieces)
        ]
        kept = self._kept
        kept[versioned] = (segments, now)
        # The one just made stays, however large.
        while len(kept) > 1 and (
            len(kept) > _KEPT_DATASETS or sum(len(held) for held, _ in kept.values()) > _KEPT_SEGMENTS
        ):
            del kept[next(iter(kept))]
        return segments[0]

    def find(self, interest: Interest, now: int) -> bytes | None:
        """Return the segment that is asked for by version and number, if it is still there."""
        for versioned, (segments, since) in list(self._kept.items()):
            if since + _KEPT_NS <= now:
                del self._kept[versioned]
            elif interest.name == versioned and interest.can_be_prefix:
                return segments[0]
            elif interest.name.startswith(versioned):
                rest = interest.name[len(versioned) :]
                for number, segment in enumerate(segments):
                    if rest == component(SEGMENT, nni(number)):
                        return segment
        return None


class Stream:
    """A stream of notifications: the newest are kept, Interests for later ones wait.

    Args:
        name: its name.
        first: number of the first notification.
    """

    def __init__(self, name: bytes, first: int = 0) -> None:
        self._name = name
        self._next = first
        self._kept: deque[tuple[bytes, bytes, int]] = deque(maxlen=_KEPT_NOTIFICATIONS)  # name, packet, when
        self._waiting: dict[bytes, int] = {}  # name that is asked for -> until when, ns

    def ask(self, interest: Interest, now: int) -> bytes | None:
        """Return the notification that an Interest asks for; if there is none, wait for it."""
        name = interest.name
        if name == self._name:
            if not interest.can_be_prefix:
                return None
            if self._kept:
                _, packet, since = self._kept[-1]
                if not interest.must_be_fresh or now < since + FRESHNESS_MS * MS:
                    return packet
        else:
            for kept, packet, since in self._kept:
                if kept == name and (not interest.must_be_fresh or now < since + FRESHNESS_MS * MS):
                    return packet
        self._waiting.pop(name, None)
        self._waiting[name] = now + interest.lifetime_ms * MS
        if len(self._waiting) > _WAITING:
            del self._waiting[next(iter(self._waiting))]
        return None

    def notify(self, content: bytes, now: int) -> Iterator[bytes]:
        """Publish a notification; yield the packet if an Interest for it is pending."""
        name = self._name + component(SEQUENCE, nni(self._next))
        self._next += 1
        packet = make_data(name, content, freshness_ms=FRESHNESS_MS)
        self._kept.append((name, packet, now))
        asked = [self._waiting.pop(waiting, -1) for waiting in (name, self._name)]
        if max(asked) > now:
            yield packet
