"""Times of a machine's operations, for a scenario's [cost]: `python -m testbed.bench.runs.cost`.

Prints the section. Each time is the least of several rounds, in processor time but for the store, whose
commits wait for the file system.

- A frame's time is half of that of a packet which a node with its links receives and sends on, without the
  system calls of sockets.
- A hash is all that a forwarder does about an item besides its frames and signatures: it reads the message
  and computes its id, compares it with the items beside it, keeps it, and keeps account of credit.
- Signatures are of messages as generated feeds have them.
- Messages are stored one by one, as they come from a live feed.
"""

import platform
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from ssb.generate import generate_feed
from ssb.keys import Identity, verify
from ssb.message import Message
from testbed.bench.core import measure_exchanges, measure_push
from testbed.bench.figures import Measured, Series
from testbed.bench.load import make_exchanges, new_host, ssb_feed
from testbed.bench.peers.store import TimedFeeds
from testbed.bench.program import timed

_ROUNDS = 7
_EXCHANGES, _MESSAGES = 4_000, 500
_FRAMES_OF_PUSH = 3  # one in, two out


def _least_us(calls: Sequence[Callable[[], object]]) -> float:
    return min(timed(lambda: [call() for call in calls]) for _ in range(_ROUNDS)) / len(calls) * 1e6


def _forward_us() -> float:
    load = make_exchanges(_EXCHANGES)
    rates = Series()
    for _ in range(_ROUNDS):
        measure_exchanges(rates, new_host(), load)
    return 1e6 / max(rates.values) / 2


def _item_us(messages: Sequence[Message]) -> float:
    """Return the time of an item that is pushed to two downstreams, without signatures."""
    measured: Measured = defaultdict(Series)
    for _ in range(_ROUNDS):
        measure_push(measured, "ssb", ssb_feed(messages))
    return 1e6 / max(measured["ssb rest"].values)


def _store_us(messages: Sequence[Message]) -> float:
    times = []
    for _ in range(_ROUNDS):
        with tempfile.TemporaryDirectory() as place, TimedFeeds(Path(place) / "feeds.db") as store:
            for message in messages:
                store.append([message], 0.0)
            times.append(store.writing.seconds / len(messages) * 1e6)
    return min(times)


def times() -> dict[str, float]:
    """Return the times of this machine by the keys of [cost]."""
    author = Identity.from_seed(bytes(32))
    messages = generate_feed(Random(1), _MESSAGES, author)
    signed = [message.encoded for message in messages]
    pairs = [(author.sign(text), text) for text in signed]
    forward = _forward_us()
    return {
        "forward_us": forward,
        "verify_us": _least_us([lambda pair=pair: verify(author.public_key, *pair) for pair in pairs]),  # type: ignore[misc]
        "sign_us": _least_us([lambda text=text: author.sign(text) for text in signed]),  # type: ignore[misc]
        "hash_us": _item_us(messages) - _FRAMES_OF_PUSH * forward,
        "store_us": _store_us(messages),
    }


def main() -> None:
    """Print the section."""
    print(f"# {platform.system()} {platform.machine()}, Python {platform.python_version()}", file=sys.stderr)
    print("[cost]")
    for name, value in times().items():
        print(f"{name} = {value:.3g}")


if __name__ == "__main__":
    main()
