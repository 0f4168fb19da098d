"""Synthetic feeds that resemble a real one in message sizes and intervals.

The two tables are quantiles of a real feed of 235 classic messages (tests/data/ssb-feed-235.jsonl;
public test data of an MIT-licensed implementation). With n values v[0] <= ... <= v[n - 1], the k-th
of 65 quantiles lies at position k (n - 1) / 64, between two values by linear interpolation, rounded
to an integer. A test measures them again.

Drawing is inverse transform sampling: a uniform position in the table, linear between its entries.
Successive draws are independent; those of the real feed are not.
"""

from collections.abc import Callable, Mapping
from random import Random

from ssb.canonical import Value
from ssb.keys import Identity
from ssb.message import Message

# fmt: off
SIZE_QUANTILES = (
    386, 465, 465, 502, 502, 502, 502, 503, 503, 503, 503, 503, 503, 503, 503, 503, 503, 503, 524, 525,
    525, 525, 526, 526, 526, 526, 527, 528, 529, 530, 530, 530, 531, 532, 532, 532, 532, 532, 533, 533,
    533, 533, 537, 541, 562, 652, 702, 740, 752, 768, 812, 828, 864, 884, 914, 951, 984, 1070, 1185,
    1217, 1358, 1636, 2301, 3964, 7607,
)
"""Bytes of the canonical text in UTF-8, signature included."""

GAP_QUANTILES = (
    3, 2778, 7004, 16930, 25615, 35633, 50377, 54439, 66163, 72938, 98516, 105400, 114413, 128215,
    142802, 164098, 176566, 215567, 253083, 270852, 324464, 372955, 424969, 512962, 610658, 726192,
    880393, 1095967, 1379293, 1527606, 1910750, 2256562, 2874410, 3401948, 3863266, 4855113, 5089139,
    6021895, 6521880, 8178508, 8620211, 11090167, 12617164, 14930334, 22684436, 25295119, 32814812,
    45670413, 50346800, 55605534, 60597723, 71945623, 78767136, 80494421, 86135214, 108859925,
    130377541, 161750052, 182177965, 206362719, 372278407, 447113376, 568059395, 746975384, 2776747124,
)
"""Milliseconds from the timestamp of one message to that of the next."""
# fmt: on

FIRST_TIMESTAMP = 1_510_139_454_353
"""Timestamp of the first message, in ms since 1970, as in the real feed."""

_WORDS = (
    "ask", "boat", "cloud", "dawn", "echo", "field", "gossip", "harbour", "island", "journey", "kelp",
    "lantern", "meadow", "north", "orchard", "pebble", "quiet", "river", "shore", "tide", "umbrella",
    "valley", "weather", "yarn", "zephyr",
)  # fmt: skip


SMALLEST = 400
"""Bytes of the smallest message whose size can be chosen."""


def generate_feed(
    rng: Random,
    items: int,
    identity: Identity | None = None,
    tip: Message | None = None,
    size: int | None = None,
    more: Callable[[int], Mapping[str, Value]] = lambda number: {},
) -> list[Message]:
    """A signed feed of `items` messages of type post, determined by the state of `rng`.

    The author is `identity`, or drawn from `rng`. With a `tip`, a message of that feed, the messages continue
    it, so that two generators make two branches of a forked feed. Text fills each message to its size, to the
    byte: a post without text has 381 bytes and the digits of its sequence number. With a `size`, at least
    SMALLEST, all have that many bytes. The fields that `more` gives for a sequence number come on top.
    """
    if identity is None:
        identity = Identity.from_seed(rng.randbytes(32))
    messages: list[Message] = []
    timestamp: float = FIRST_TIMESTAMP if tip is None else tip.timestamp + _draw(rng, GAP_QUANTILES)
    for _ in range(items):
        drawn = _draw(rng, SIZE_QUANTILES)
        empty = Message.create(identity, tip, {"type": "post", "text": ""}, timestamp)
        text = _words(rng, (size or drawn) - len(empty.encoded))
        number = 1 if tip is None else tip.sequence + 1
        tip = Message.create(identity, tip, {"type": "post", "text": text, **more(number)}, timestamp)
        messages.append(tip)
        timestamp += _draw(rng, GAP_QUANTILES)
    return messages


def _draw(rng: Random, quantiles: tuple[int, ...]) -> int:
    position = rng.random() * (len(quantiles) - 1)
    below = int(position)
    return round(quantiles[below] + (quantiles[below + 1] - quantiles[below]) * (position - below))


def _words(rng: Random, length: int) -> str:
    """ASCII words that fill `length` characters, the last one cut."""
    text = ""
    while len(text) < length:
        text += rng.choice(_WORDS) + " "
    return text[:length]
