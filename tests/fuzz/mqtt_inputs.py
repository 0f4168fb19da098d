"""Initial inputs of fuzzing: what clients and brokers of MQTT say."""

from collections.abc import Sequence

from ssb.mqtt import packets
from ssb.mqtt.packets import Packet, Publish, Published, Subscribe, encode
from testbed.verify.fuzz.subjects.events import PAUSE, Event, encoded
from testbed.verify.fuzz.subjects.mqtt import HONEST, PACKET, PACKET_TO_CLIENT, RAW, REOPEN, TO_CLIENT


def for_mqtt() -> dict[str, bytes]:
    """Return initial inputs: what clients say and what they must not, floods, and what brokers say."""

    def said(*some: Packet, which: int = 0) -> list[Event]:
        return [Event(RAW, which, encode(packet)) for packet in some]

    def split(*some: Packet, which: int = 0, kind: int = PACKET) -> list[Event]:
        found = [(encode(packet), 1 + (len(encode(packet)) > 129)) for packet in some]
        return [Event(kind, which, data[:1] + data[1 + size :]) for data, size in found]

    def answered(*some: Packet, then: Sequence[Event]) -> list[Event]:
        return [*split(*some, kind=PACKET_TO_CLIENT), *then]

    names = [packets.Connect(f"c{number}", bool(number & 1), 10) for number in range(5)]
    everything, message = Subscribe(1, (("#", 1), ("a/+", 0))), Publish("a/b", b"x" * 20, 7, True)
    flood = b"".join(encode(Publish(f"a/{number}", b"", 1 + number)) for number in range(130))
    filters = [Subscribe(1, tuple((f"{half}{each}", 1) for each in range(150))) for half in "xy"]
    events = {
        "said": said(names[0], everything, message, Published(1), packets.Ping(), packets.Disconnect()),
        "split": split(names[1], everything, message._replace(payload=b"x" * 90), Published(1)),
        "retained": said(names[0], message, Publish("a/b", b"", 8, True), everything),
        "late": said(names[0], message) + said(names[2], everything, which=1),
        "taken-over": [*said(names[0], everything), *said(names[0], which=1), *said(message, which=2)],
        "clean": [*said(names[1], everything), Event(REOPEN, 0), *said(names[2], message)],
        "away": [*said(names[0], everything), Event(REOPEN, 0), *said(names[2], message), *said(names[0])],
        "sessions": [part for each in names for part in (*said(each), Event(REOPEN, 0))],
        "flood": [*said(names[0], everything), *said(names[2], which=1), *[Event(RAW, 1, flood)] * 3],
        "filters": said(names[0], *filters),
        "nul": split(names[0], Publish("a\0b", b"x", 7), which=1),
        "silence": [*said(names[0]), Event(HONEST, 1, b"y"), *[Event(PAUSE, 3)] * 3, Event(HONEST, 2)],
        "stranger": [Event(RAW, 0, b"\x10"), *[Event(PAUSE, 2)] * 2, Event(HONEST, 1, b"y")],
        "client": answered(
            *(packets.Connected(False), Published(1), message),
            then=[Event(TO_CLIENT, 0, encode(packets.Subscribed(4, (1,)))), Event(PAUSE, 3)],
        ),
        "refused": answered(
            packets.Connected(False, packets.UNAVAILABLE),
            then=[Event(TO_CLIENT, 0, b"\0\0"), Event(PAUSE, 2)],
        ),
    }
    return encoded(events)
