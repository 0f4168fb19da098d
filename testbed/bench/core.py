"""Measurements without sockets: the core, the links, verified feeds, cryptography."""

import gc
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from unittest import mock

from nacl.bindings import crypto_sign_open

from forwarder.feedcache.items import forget_all
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.wire.feed import item_name
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest
from ssb import keys
from ssb.keys import Identity
from ssb.message import Message
from testbed.bench.figures import Measured, Series
from testbed.bench.load import (
    DOWN,
    DOWN_TOO,
    PAYLOAD_BYTES,
    UP,
    WINDOW,
    BenchError,
    Exchanges,
    Feed,
    new_forwarder,
)
from testbed.bench.program import timed

_GAP_NS = 10_000  # virtual time between packets


def measure_exchanges(series: Series, node: Forwarder | Host, load: Exchanges) -> None:
    """Measure packets a CPU second without I/O."""
    sender = () if isinstance(node, Forwarder) else (None,)
    receive: Callable[..., None] = node.receive
    gc.collect()
    # A fork has made the packets' pages copy-on-write: take the page faults here.
    windows = [*load.windows()]
    now = received = sent = 0
    begun = time.process_time_ns()
    for interests, data in windows:
        for face, packets in ((DOWN, interests), (UP, data)):
            for packet in packets:
                now += _GAP_NS
                receive(face, packet, *sender, now)
            received += len(packets)
            sent += len(node.take_outputs())
            node.next_deadline()
    elapsed = time.process_time_ns() - begun
    if sent != received:
        raise BenchError(f"{received} packets went into the forwarder, {sent} came out")
    series.add(received / elapsed * 1e9, received=received, sent=sent)


def measure_push(measured: Measured, name: str, feed: Feed) -> None:
    """Measure items a CPU second through a forwarder to two downstreams, and Ed25519's share of the time."""
    node = new_forwarder()
    node.fib.add(feed.name, UP)
    count = len(feed.items)
    first_item = item_name(feed.name, 1)
    sent: Counter[int] = Counter()
    now = 0
    forget_all()
    gc.collect()
    with _ed25519_watched() as ed25519:
        begun = time.process_time_ns()
        for face in (DOWN, DOWN_TOO):
            lli = make_interest(
                first_item, nonce=face, lifetime_ms=60_000, hop_limit=SENT_HOP_LIMIT, send_credit=count
            )
            node.receive(face, lli, now)
        for first in range(0, count, WINDOW):
            for item in feed.items[first : first + WINDOW]:
                now += _GAP_NS
                node.receive(UP, item, now)
            sent.update(face for face, _ in node.take_outputs())
            node.next_deadline()
        elapsed = time.process_time_ns() - begun
    if not sent[DOWN] == sent[DOWN_TOO] == count:
        raise BenchError(f"{count} items went into the forwarder, {sent[DOWN]} and {sent[DOWN_TOO]} came out")
    measured[f"{name} push"].add(
        count / elapsed * 1e9, received=count, sent=sent[DOWN] + sent[DOWN_TOO], verified=ed25519["calls"]
    )
    measured[f"{name} share"].add(ed25519["ns"] / elapsed)
    measured[f"{name} rest"].add(count / (elapsed - ed25519["ns"]) * 1e9)


@contextmanager
def _ed25519_watched() -> Iterator[Counter[str]]:
    """Count verifications inside the `with` block and their CPU time, ns."""
    seen: Counter[str] = Counter()

    def watched(signed: bytes, key: bytes) -> bytes:
        begun = time.process_time_ns()
        try:
            return crypto_sign_open(signed, key)
        finally:
            seen["ns"] += time.process_time_ns() - begun
            seen["calls"] += 1

    with mock.patch.object(keys, "crypto_sign_open", watched):
        yield seen


def measure_crypto(measured: Measured, messages: Sequence[Message]) -> None:
    """Measure the cost of signatures, hashes and messages, microseconds."""
    identity = Identity.from_seed(bytes(32))
    block = bytes(PAYLOAD_BYTES)
    blocks = [block] * len(messages)
    verify = partial(keys.verify, identity.public_key, identity.sign(block))
    measured["verify"].add(_cost_us(verify, blocks))
    measured["sign"].add(_cost_us(identity.sign, blocks))
    measured["hash"].add(_cost_us(lambda data: hashlib.sha256(data).digest(), blocks))
    texts = [message.encoded for message in messages]
    measured["message"].add(_cost_us(lambda text: Message.from_text(text).verify(), texts))


def _cost_us(operation: Callable[[bytes], object], inputs: Sequence[bytes]) -> float:
    return timed(lambda: [operation(each) for each in inputs]) / len(inputs) * 1e6
