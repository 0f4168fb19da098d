"""Initial inputs of fuzzing: what neighbours in multicast trees say."""

from ssb.multicast.packets import (
    LAST_NUMBER,
    Channel,
    Heartbeat,
    Item,
    Join,
    Prune,
    Request,
    Restart,
    Segment,
    encode,
)
from testbed.verify.fuzz.subjects.events import PAUSE, Event, encoded
from testbed.verify.fuzz.subjects.multicast import FOREIGN, LINK, OWN, PUBLISH, RAW, ROUTE


def for_multicast() -> dict[str, bytes]:
    """Return initial inputs: what neighbours say, and what they must not."""

    def said(*packets: object, which: int = 0) -> list[Event]:
        return [Event(RAW, which, encode(each)) for each in packets]  # type: ignore[arg-type]

    def item(number: int, before: int = 255, channel: Channel = FOREIGN) -> Item:
        return Item(channel, number, before, Segment(3, b"%d" % number))

    published = [Event(PUBLISH, 0, b"%d" % number) for number in range(6)]
    later = [Event(PAUSE, each) for each in range(4)]
    join, leave = Join((FOREIGN,)), Prune((FOREIGN,))
    ahead = Heartbeat(FOREIGN, 1, 9)
    asked = [Request(each, ((1, 2), (4, 1))) for each in (OWN, FOREIGN)]
    strangers = [Join(tuple(Channel(bytes((each,) * 4), b"\xe8\0\1\0") for each in range(20)))]
    ranges = [((1 + 256 * each, 256),) for each in range(20)]
    flood = said(*(Request(FOREIGN, each) for each in ranges), which=1)
    events = {
        "items": [*said(Heartbeat(FOREIGN, 1, 0), item(1), item(2), item(3)), *later],
        "gap": [*said(Heartbeat(FOREIGN, 1, 0), item(1), item(4, 1)), *later, *said(item(2), item(3))],
        "heartbeat": [*said(ahead, item(3), item(7)), *later, *said(item(1), item(2))],
        "gone": [*said(ahead, item(3)), *later, *said(Heartbeat(FOREIGN, 6, 9))],
        "far": [*said(ahead, Heartbeat(FOREIGN, 1, LAST_NUMBER), item(LAST_NUMBER)), *later],
        "reader": [*published, *said(Join((OWN,)), asked[0], which=1), *later, *published],
        "joined": [*said(ahead), *said(join, which=1), *said(item(1)), *said(asked[1], which=1), *later],
        "left": [*said(ahead), *said(join, leave, which=1), *said(item(1)), *later],
        "wanted": [*said(ahead), *said(join, which=1), *said(*map(item, range(1, 10))),
                   *said(Request(FOREIGN, ((1, 3),)), leave, which=1), *later],
        "link": [*said(ahead, item(2)), Event(LINK, 0), *later, Event(LINK, 0), *later],
        "route": [*said(ahead), *said(join, which=1), Event(ROUTE, 3), *later, Event(ROUTE, 0), *later],
        "back": [*said(ahead, join, item(1)), *later],
        "crowd": [*said(Heartbeat(FOREIGN, 1, 100_000)), *said(join, which=1), *flood],
        "order": said(asked[0]._replace(ranges=((4, 2), (1, 1))), asked[0]._replace(ranges=((1, 0),))),
        "stranger": [*said(*strangers, which=1), *said(item(1, channel=OWN)), *later],
        "restart": [*said(ahead, Restart()), *later],
    }  # fmt: skip
    return encoded(events)
