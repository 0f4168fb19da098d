"""Pictures of messages, at a node that publishes or follows: blobs, fetched when the message is there.

A message names its pictures by their hashes, which have no location. Over NDN the Interests' forwarding hint
is the feed of the message: its author has the picture, and content stores on the way may have it. Scuttlebutt
peers flood their wants (ssb.replication.blobs).
"""

from collections import Counter
from collections.abc import Iterable, Set
from random import Random

from base.passive import Outputs
from base.timers import earliest
from forwarder.wire.lp import parse_lp
from forwarder.wire.name import to_uri
from forwarder.wire.packet import read_name
from forwarder.wire.tlv import MalformedPacket
from ssb.application import Event
from ssb.store.blobs import BlobStore
from ssb_over_ndn.following.blobs import BlobFetches
from ssb_over_ndn.following.subscriber import Reporter
from ssb_over_ndn.naming import BLOBS, blob_name, log_name, split_segment
from testbed.layerings.nodes.workload import Workload


class Album:
    """The pictures that a node shares, and those of the messages that it gets.

    Args:
        workload: all messages and pictures.
        store: the node's blobs; a node has the pictures of its own feeds from the start.
        node: its name.
    """

    def __init__(self, workload: Workload, store: BlobStore, node: str) -> None:
        self._workload = workload
        self._messages = {feed.key: feed.messages for feed in workload.feeds}
        self._store = store
        self._missing: dict[str, list[Event]] = {}  # deliveries of the messages that name a picture
        self._new: list[str] = []
        for feed in workload.feeds:
            if feed.publisher == node:
                for message in feed.messages:
                    for blob in workload.pictures_in(message):
                        store.add(workload.pictures[blob])

    def note(self, events: Iterable[Event]) -> list[Event]:
        """Return the events with those of their pictures: "shared" after a publication, and "shown" after a
        delivery if the picture is here; else it is missing from now on.
        """
        noted = []
        for event in events:
            noted.append(event)
            if event.event not in ("published", "delivered"):
                continue
            for blob in self._workload.pictures_in(self._messages[event.feed][event.seq - 1]):
                size = self._store.size(blob)
                if size is None:
                    if blob not in self._missing:
                        self._new.append(blob)
                    self._missing.setdefault(blob, []).append(event)
                else:
                    word = "shared" if event.event == "published" else "shown"
                    noted.append(_of_picture(event, event.time, word, blob, size))
        return noted

    def author_of(self, blob: str) -> str | None:
        """Return the author of a message that has a missing picture; None if it is not missing."""
        return self._missing[blob][0].feed if blob in self._missing else None

    def take_new(self) -> list[str]:
        """Return the pictures that have become missing since the last call."""
        new, self._new = self._new, []
        return new

    def arrived(self, blob: str, now: int) -> list[Event]:
        """Return a "shown" event for each message with a picture, if the picture is here."""
        size = self._store.size(blob)
        if size is None:
            return []
        return [_of_picture(event, now, "shown", blob, size) for event in self._missing.pop(blob, ())]

    def close(self, feeds: Set[str] | None = None) -> list[str]:
        """Return the pictures that only messages of these feeds lack; from now on these messages lack none.

        Without an argument, it returns all missing pictures.
        """
        closed = []
        for blob, events in list(self._missing.items()):
            events[:] = [event for event in events if feeds is not None and event.feed not in feeds]
            if not events:
                del self._missing[blob]
                closed.append(blob)
        self._new = [blob for blob in self._new if blob in self._missing]
        return closed


def _of_picture(event: Event, time: int, word: str, blob: str, size: int) -> Event:
    return Event(time, word, event.feed, event.seq, size, to_uri(blob_name(blob)))


class PictureReader(Outputs):
    """An Application and Reporter: it follows feeds over NDN, and fetches the pictures of their messages.

    Args:
        subscriber: it follows the feeds.
        album: the node's pictures.
        store: its blobs.
        rng: source of nonces.
    """

    def __init__(self, subscriber: Reporter, album: Album, store: BlobStore, rng: Random) -> None:
        super().__init__()
        self._subscriber = subscriber
        self._album = album
        self._fetches = BlobFetches(store, rng, self._hint, Counter())
        self._events: list[Event] = []

    def receive(self, packet: bytes, now: int) -> None:
        try:
            header = parse_lp(packet)
            name = read_name(header.fragment) if header.fragment else b""
        except MalformedPacket:
            return
        if name.startswith(BLOBS):
            if segment := split_segment(name):
                self._fetches.receive(*segment, header, now)
        else:
            self._subscriber.receive(packet, now)
        self._follow_up(now)

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def ends(self) -> tuple[int, int]:
        return self._subscriber.ends()

    def next_deadline(self) -> int | None:
        return earliest(self._subscriber.next_deadline(), self._fetches.next_deadline())

    def wake(self, now: int) -> None:
        self._subscriber.wake(now)
        self._fetches.wake(now)
        self._follow_up(now)

    def _hint(self, blob: str) -> tuple[bytes, ...] | None:
        author = self._album.author_of(blob)
        return None if author is None else (log_name(author),)

    def _follow_up(self, now: int) -> None:
        """Start fetches of pictures that have become missing, and report those that have arrived."""
        events = self._subscriber.take_events()
        self._events += self._album.note(events)
        for blob in self._album.take_new():
            self._fetches.want(blob, now)
        if stopped := {event.feed for event in events if event.event == "stopped"}:
            for blob in self._album.close(stopped):
                self._fetches.drop(blob)
        self._fetches.start(now)
        for blob in self._fetches.take_complete():
            self._events += self._album.arrived(blob, now)
        self.outputs += self._subscriber.take_outputs() + self._fetches.take_outputs()
