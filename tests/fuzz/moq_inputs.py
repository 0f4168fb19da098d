"""Initial inputs of fuzzing: what subscribers, and another relay, say to a relay of Media over QUIC."""

from ssb.moq import frames
from ssb.moq.messages import (
    Failed,
    Fetch,
    FetchCancel,
    Fetched,
    FetchOk,
    Filter,
    Location,
    MaxRequestId,
    Message,
    Subgroup,
    Subscribe,
    SubscribeOk,
    Track,
    Unsubscribe,
    encode,
    encode_head,
    encode_object,
)
from testbed.verify.fuzz.subjects.events import PAUSE, Event, encoded
from testbed.verify.fuzz.subjects.moq import CONTROLLED, DATA, FILL, OURS, PUBLISH, RAW, REOPEN, WANTED

_OTHERS = (
    *("02 0003 000000", "06 0001 02", "0d 0001 04", "11 0001 06", "10 0001 00", "1a 0001 08"),
    "16 0007 08 80 01 02 00 00 00",
)
"""Messages that are not supported."""


def for_moq() -> dict[str, bytes]:
    """Return initial inputs: what subscribers and the relay that is asked say, floods, and violations."""

    def said(*some: Message, which: int = 1) -> list[Event]:
        return [Event(CONTROLLED, which, encode(message)) for message in some]

    def given(head: Subgroup | Fetched, *numbers: int, which: int = 0) -> list[Event]:
        parts, last = encode_head(head), None
        for number in numbers:
            parts += encode_object(head, last, Location(0, number), b"x" * 50)
            last = number
        return [Event(DATA, which, b"\xff" + parts)]

    zero = Location(0, 0)
    publish = [Event(PUBLISH, 0, b"object %d" % number * 20) for number in range(6)]
    subscribe, wanted = Subscribe(0, OURS), Subscribe(0, WANTED)
    fetches = [Fetch(2 * number, OURS, Location(0, 1), zero) for number in range(5)]
    granted = said(SubscribeOk(0, 0, Location(0, 3)), which=0)
    fetched = [*said(FetchOk(2, Location(0, 4)), which=0), *given(Fetched(2), 0, 1, 2, 3)]
    events = {
        "subscribed": [*publish[:3], *said(subscribe), *publish[3:], *said(Unsubscribe(0))],
        "fetched": [*publish, *said(*fetches, FetchCancel(0))],
        "refused": said(
            *(Subscribe(0, Track((b"x",), b"y")), Subscribe(2, OURS, Filter.ABSOLUTE_START, zero)),
            *(Fetch(4, Track((b"x",), b"y"), zero, zero), Fetch(6, OURS, Location(1, 0), zero)),
        ),
        "twice": said(subscribe, subscribe._replace(request=2)),
        "numbers": said(Subscribe(4, OURS), MaxRequestId(1)),
        "others": [
            *(Event(CONTROLLED, 1, bytes.fromhex(other)) for other in _OTHERS),
            *said(Subscribe(8, OURS)),
        ],
        "shares": [*publish * 6, *said(*fetches, which=2), *[Event(PAUSE, 0)] * 3],
        "frames": [Event(RAW, 1, bytes.fromhex("05 00 050204 1c0308026162 1001")), *said(subscribe)],
        "many": said(*(Subscribe(2 * at, Track((b"wanted",), b"%d" % at)) for at in range(8))),
        "full": [Event(FILL, 4), *said(subscribe), *publish * 5, Event(FILL, 1), Event(PAUSE, 3)],
        "flood": [Event(FILL, 4), *[Event(CONTROLLED, 4, encode(Failed(9, False, 1)) * 90)] * 8],
        "pings": [Event(FILL, 4), *[Event(RAW, 1, frames.encode(frames.Ping(1)) * 150)] * 4],
        "upstream": [
            *said(wanted),
            *granted,
            *fetched,
            *given(Subgroup(0, 0), 4, 5, 7),
            *said(wanted, which=2),
        ],
        "far": [*said(SubscribeOk(0, 0, Location(0, (1 << 62) - 2)), which=0), *fetched, Event(PAUSE, 3)],
        "gone": [*said(wanted), *granted, Event(REOPEN, 0), *granted, Event(PAUSE, 1), *granted],
        "failed": [*said(wanted), *said(Failed(0, False, 2), which=0), *[Event(PAUSE, 1)] * 3],
        "empty": [*granted, *said(Failed(2, True, 6), which=0), *[Event(PAUSE, 1)] * 3],
        "silence": [Event(PUBLISH, 0, b"x"), *[Event(PAUSE, 3)] * 2, Event(PUBLISH, 0, b"y")],
        "last": [
            *(*granted, *given(Subgroup(0, 0), (1 << 62) - 2), Event(DATA, 0, bytes(4))),
            *said(Fetch(0, WANTED, Location(0, 1), zero)),
        ],
        "reopened": [*said(subscribe), Event(REOPEN, 1), *publish, *said(subscribe), Event(REOPEN, 1)],
        "raw": [Event(RAW, 1, b"\x07\x08\x02\x05"), Event(RAW, 2, b"\xff" * 8)],
    }
    return encoded(events)
