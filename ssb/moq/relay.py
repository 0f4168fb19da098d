"""A relay: one subscription upstream for all downstream, a cache, and fetches of what is lacking.

Publishers and subscribers are relays, too, with feeds of their own. Every reader of a track, here or behind
a session, has the next object that it needs. It gets that from the publisher's log, from the cache, as it
comes, or by a fetch upstream; so whatever is lost, each reader gets each object once and in order. Section
numbers are those of draft-ietf-moq-transport-14.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from base.endpoint import (
    Address,
    Close,
    Closed,
    Ended,
    Full,
    Opened,
    Received,
    StreamEvent,
    Writable,
)
from base.timers import Timers, earliest
from base.units import SECOND
from ssb.moq.fields import MOST, ProtocolViolation
from ssb.moq.followed import Followed, Reader, Upstream
from ssb.moq.hops import BOUNDS, Bounds, Hops
from ssb.moq.messages import (
    LARGEST_OBJECT,
    Code,
    Fetch,
    FetchCancel,
    Filter,
    Location,
    Subscribe,
    Track,
    Unsubscribe,
)
from ssb.moq.session import Answer, Asked, Given, Granted, Over, Request

_AGAIN: Final = SECOND  # before a subscription is tried again that no relay has granted
_MOST_FETCHED: Final = 1024  # objects of a fetch upstream
_MOST_FAULTS: Final = 100  # different ones that are counted: some have a number that the other side chose


Routes = Callable[[Track], Sequence[Address]]
"""The relays to ask for a track, the best first."""


class Relay(Hops):
    """A relay.

    Args:
        routes: see Routes.
        idle: ns without a word after which a session is given up.
        cache: objects of other publishers that it keeps, the newest.
        bounds: of what else it keeps.

    Attributes:
        actions: on streams, to be taken.
        received: objects for this node's own subscriptions, as (track, object, payload), to be taken.
        counters: sessions that were closed for a fault, by fault; "other" for all beyond _MOST_FAULTS.
    """

    def __init__(self, routes: Routes, idle: int, cache: int, bounds: Bounds = BOUNDS) -> None:
        super().__init__(idle, bounds)
        self.received: list[tuple[Track, int, bytes]] = []
        self.counters: Counter[str] = Counter()
        self._routes = routes
        self._most_cached = cache
        self._tracks: dict[Track, Followed] = {}
        self._cache: dict[tuple[Track, int], bytes] = {}
        self._retries: Timers[Track] = Timers()

    def state(self) -> tuple[int, int]:
        """Return subscriptions and fetches of either side, and their bytes with the names of their tracks."""
        sizes = [track.size for track in self._tracks.values()]
        return sum(entries for entries, _ in sizes), sum(size for _, size in sizes)

    # --- This node's own tracks ---

    def announce(self, name: Track) -> None:
        """Be the publisher of a track, which has no object yet."""
        self._tracks.setdefault(name, Followed(name)).own = []

    def publish(self, name: Track, payload: bytes, now: int) -> None:
        """Publish the next object of a track that was announced. Raises ValueError if it is too large."""
        if len(payload) > LARGEST_OBJECT:
            raise ValueError(f"an object of {len(payload)} bytes")
        track = self._tracks[name]
        assert track.own is not None
        track.own.append(payload)
        track.largest = len(track.own) - 1
        for reader in [*track.readers]:
            self._serve(reader, now)
        self._settle(now)

    def follow(self, name: Track, first: int, now: int) -> None:
        """Subscribe to a track, from an object on."""
        track = self._tracks.setdefault(name, Followed(name))
        track.readers.append(Reader(track, None, 0, first))
        if track.is_ready:
            self._serve_all(track, now)
        elif not track.upstreams:
            self._look(track, now)
        self._settle(now)

    def leave(self, name: Track, now: int) -> None:
        """End this node's own subscription to a track."""
        track = self._tracks.get(name)
        if track is not None:
            track.readers = [reader for reader in track.readers if reader.stream is not None]
            self._check_wanted(track, now)
        self._settle(now)

    def reroute(self, now: int) -> None:
        """Move subscriptions to the best relays now; an old one ends when the new one is granted."""
        for track in [*self._tracks.values()]:
            best = self._routes(track.name)
            if track.own is not None or not best:
                continue
            addresses = [each.address for each in track.upstreams]
            if best[0] not in addresses:
                self._look(track, now)
                continue
            for later in track.upstreams[addresses.index(best[0]) + 1 :]:
                self._withdraw(track, later, now)
        self._settle(now)

    # --- Time and streams ---

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return 0 if self.has_more else earliest(self.ends.next_deadline(), self._retries.next_deadline())

    def wake(self, now: int) -> None:
        """Give up silent sessions, tell others that this relay is there, and try subscriptions again."""
        for stream in self.take_more():
            self._serve_session(stream, now)
        for stream in self.ends.expire(now):
            session = self.session(stream)
            if session.wake(now):
                continue
            if session.asked or session.open_requests():
                self.counters["silence"] += 1  # else nobody needs it any more
            self.actions.append(Close(stream, abort=True))
            self._drop(stream, now)
        for name in self._retries.expire(now):
            track = self._tracks[name]
            if not track.is_ready and not track.upstreams:
                self._look(track, now)
            else:
                self._serve_all(track, now)
        self._settle(now)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        """Handle an event of a session's connection."""
        stream = event.stream
        match event:
            case Opened(_, peer, port) if port is not None:
                if not self.accept(stream, peer, now):
                    self.counters["too many sessions"] += 1
            case _ if stream not in self.sessions:
                return
            case Opened():
                self.session(stream).begin(now)
            case Received(_, data):
                try:
                    for unit in self.session(stream).receive(data, now):
                        self._take(stream, unit, now)
                except ProtocolViolation as error:
                    self._refuse(stream, str(error), now)
            case Full():
                self.session(stream).is_full = True
            case Writable():
                self.session(stream).is_full = False
                self.queued.pop(stream, None)
                self._serve_session(stream, now)
            case Ended():
                self.actions.append(Close(stream))
                self._drop(stream, now)
            case Closed():
                self._drop(stream, now)
        self._settle(now)

    # --- Sessions ---

    def _settle(self, now: int) -> None:
        """Send what sessions have to say, and end those that do not read it."""
        while overfull := self.flush(now):
            for stream in overfull:
                self._refuse(stream, "it does not read", now)

    def _refuse(self, stream: int, why: str, now: int) -> None:
        if stream in self.sessions:
            is_known = why in self.counters or len(self.counters) < _MOST_FAULTS
            self.counters[why if is_known else "other"] += 1
            self.actions.append(Close(stream, abort=True))
            self._drop(stream, now)

    def _drop(self, stream: int, now: int) -> None:
        """Forget a session: its readers are gone, and what it brought has to come another way."""
        for reader in self.readers(stream):
            self._remove(reader, now)
        session = self.forget(stream)
        for request in session.open_requests():
            self._on_over(request, now)

    # --- Requests of others ---

    def _take(self, stream: int, unit: Asked | Answer, now: int) -> None:
        match unit:
            case Subscribe() | Fetch():
                self._on_request(stream, unit, now)
            case Unsubscribe(number) | FetchCancel(number):
                reader = self.sessions[stream].asked.get(number)
                if isinstance(reader, Reader):
                    self.stop(reader, now)
                    self._remove(reader, now)
            case Granted(request, largest):
                self._on_granted(request, largest, now)
            case Given(request, location, payload):
                track = self._tracks.get(request.track)
                if track is not None and track.own is None and _is_of_feed(location):
                    self._on_object(track, location.object, payload, now, is_new=request.part is None)
            case Over(request):
                self._on_over(request, now)

    def _on_request(self, stream: int, asked: Subscribe | Fetch, now: int) -> None:
        """Answer a request, as soon as the track's largest object is known, or all of a fetch (8.3)."""
        session, name, refusal = self.session(stream), asked.track, None
        first, end = 0, None
        if isinstance(asked, Fetch):
            first, end = asked.start.object, MOST if asked.end.group else asked.end.object or MOST
            refusal = Code.INVALID_RANGE if asked.start.group else None
        elif asked.filter != Filter.LARGEST_OBJECT or not asked.is_forwarded:
            refusal = Code.NOT_SUPPORTED
        if refusal is None and name not in self._tracks and not self._routes(name):
            refusal = Code.TRACK_DOES_NOT_EXIST
        if refusal is not None:
            session.refuse(asked.request, refusal, now, is_fetch=isinstance(asked, Fetch))
            return
        track = self._tracks.setdefault(name, Followed(name))
        if end is None and any(reader.stream == stream and reader.end is None for reader in track.readers):
            raise ProtocolViolation("two subscriptions to a track")
        reader = Reader(track, stream, asked.request, first, end)
        session.asked[asked.request] = reader
        track.readers.append(reader)
        if track.is_ready or (end is not None and end <= track.largest + 1):
            self._answer(reader, now)
        elif not track.upstreams:
            self._look(track, now)

    def _answer(self, reader: Reader, now: int) -> None:
        if self.grant(reader, now):
            self._serve(reader, now)
        else:
            self._remove(reader, now)

    def _remove(self, reader: Reader, now: int) -> None:
        reader.track.readers.remove(reader)
        self._check_wanted(reader.track, now)

    def _check_wanted(self, track: Followed, now: int) -> None:
        """Unsubscribe from a track that nobody wants any more."""
        if track.readers or track.own is not None:
            return
        for upstream in (*track.upstreams, *([track.fetch] if track.fetch else [])):
            self.session(upstream.stream).cancel(upstream.request, now)
        self._tracks.pop(track.name, None)
        self._retries.set(track.name, None)

    # --- Objects ---

    def _on_object(self, track: Followed, number: int, payload: bytes, now: int, *, is_new: bool) -> None:
        if is_new:
            track.largest = max(track.largest, number)
        has_room = len(self._cache) < self._most_cached
        if self._most_cached and (is_new or has_room) and (track.name, number) not in self._cache:
            if not has_room:  # a fetch of old objects drives no new ones out
                del self._cache[next(iter(self._cache))]
            self._cache[track.name, number] = payload
        for reader in [*track.readers]:
            if reader.next == number and self.is_open(reader):
                self._give(reader, payload, now)
            if not reader.has_all:
                self._serve(reader, now)

    def _serve(self, reader: Reader, now: int) -> None:
        """Give a reader what is here; let the rest be fetched."""
        track = reader.track
        while not reader.has_all and self.is_open(reader):
            payload = self._find(track, reader.next)
            if payload is None:
                self._fill(track, now)
                return
            self._give(reader, payload, now)

    def _serve_all(self, track: Followed, now: int) -> None:
        for reader in [*track.readers]:
            self._serve(reader, now)

    def _serve_session(self, stream: int, now: int) -> None:
        """Serve the readers behind a session; those that are served now come last next time."""
        asked = self.sessions[stream].asked
        for reader in self.readers(stream):
            if not reader.has_all and self.is_open(reader):
                self._serve(reader, now)
                if reader.number in asked:
                    asked[reader.number] = asked.pop(reader.number)

    def _find(self, track: Followed, number: int) -> bytes | None:
        if track.own is not None:
            return track.own[number] if number < len(track.own) else None
        return self._cache.get((track.name, number))

    def _give(self, reader: Reader, payload: bytes, now: int) -> None:
        number, reader.next = reader.next, reader.next + 1
        if reader.stream is None:
            self.received.append((reader.track.name, number, payload))
            return
        assert reader.out is not None
        session, is_last = self.session(reader.stream), reader.next == reader.end
        session.give(reader.out, Location(0, number), payload, now, is_last=is_last)
        if is_last:
            session.finish(reader.number, now)
            self._remove(reader, now)

    def _fill(self, track: Followed, now: int) -> None:
        """Fetch what readers lack, once for all of them."""
        source = track.source
        lacking = [each for each in track.readers if not each.has_all and self.is_open(each)]
        if source is None or track.fetch is not None or track.name in self._retries or not lacking:
            return
        first = min(reader.next for reader in lacking)
        most = min(max(reader.limit for reader in lacking), first + _MOST_FETCHED, MOST)
        end = first + 1
        while end < most and self._find(track, end) is None:
            end += 1
        request = Request(track.name, (Location(0, first), Location(0, end)))
        track.fetch = source._replace(request=request)
        self.session(source.stream).ask(request, now)

    # --- Requests of this relay ---

    def _look(self, track: Followed, now: int) -> None:
        """Subscribe to a track at the best relay, and if that fails, at the others."""
        track.left = [*self._routes(track.name)]
        self._ask_next(track, now)

    def _ask_next(self, track: Followed, now: int) -> None:
        if track.left:
            address = track.left.pop(0)
            upstream = Upstream(self.to(address, now), address, Request(track.name))
            track.upstreams.append(upstream)
            self.session(upstream.stream).ask(upstream.request, now)
            return
        for reader in [*track.readers]:
            can_go_on = reader.out is not None and self._find(track, reader.next) is not None
            if reader.stream is not None and (reader.end is None or not can_go_on):
                self.turn_away(reader, now)
                self._remove(reader, now)
        if track.readers:
            self._retries.set(track.name, now + _AGAIN)

    def _on_granted(self, request: Request, largest: Location | None, now: int) -> None:
        track = self._tracks.get(request.track)
        if track is None or request.part is not None:
            return
        if largest is not None and _is_of_feed(largest):
            track.largest = max(track.largest, largest.object)
        self._retries.set(track.name, None)
        place = next(at for at, each in enumerate(track.upstreams) if each.request is request)
        for before in track.upstreams[:place]:
            self._withdraw(track, before, now)
        for reader in [*track.readers]:
            if reader.stream is not None and reader.out is None:
                self._answer(reader, now)
        self._serve_all(track, now)

    def _withdraw(self, track: Followed, upstream: Upstream, now: int) -> None:
        """Take back a subscription, or forget one that is lost; end the fetch at the same relay."""
        track.upstreams.remove(upstream)
        if upstream.stream not in self.sessions:
            return  # _drop() ends the fetch
        session = self.session(upstream.stream)
        session.cancel(upstream.request, now)
        if track.fetch is not None and track.fetch.stream == upstream.stream:
            session.cancel(track.fetch.request, now)
            track.fetch = None

    def _on_over(self, request: Request, now: int) -> None:
        """Go on after a fetch, or a subscription that is lost."""
        track = self._tracks.get(request.track)
        if track is None:
            return
        if track.fetch is not None and track.fetch.request is request:
            track.fetch = None
            assert request.part is not None
            first = request.part[0].object
            if any(each.next == first and not each.has_all for each in track.readers):
                self._retries.set(track.name, now + _AGAIN)  # it brought nothing
            self._serve_all(track, now)
        lost = [each for each in track.upstreams if each.request is request]
        if lost:
            self._withdraw(track, lost[0], now)
            if track.upstreams:
                return
            if request.alias is not None:
                others = [each for each in self._routes(track.name) if each != lost[0].address]
                track.left = [*others, lost[0].address]
            self._ask_next(track, now)


def _is_of_feed(location: Location) -> bool:
    """Whether a feed may have an object there, and one more after it."""
    return not location.group and location.object < MOST
