"""A reader of the newest items of a log that is as long as you like, over one link in virtual time."""

from heapq import heappop, heappush
from random import Random
from typing import Final, NamedTuple

from base.units import MS, SECOND
from forwarder.wire.feed import split_item
from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import parse_interest
from ssb.keys import Identity
from ssb_over_ndn.layerings.sparse import Sparse
from ssb_over_ndn.linked import LinkedWriter, path
from ssb_over_ndn.naming import log_name, metadata_packet
from topologies.link import LinkParameters
from topologies.pipe import Pipe

LENGTHS: Final = (100, 1_000, 10_000, 100_000, 1_000_000)
_HEADERS: Final = bytes(42)  # Ethernet, IPv4 and UDP, as on a run's links
_PATIENCE: Final = 600 * SECOND


class Line(NamedTuple):
    """The link between reader and publisher: its rate, and its delay one way."""

    mbit: float
    delay_ms: float


class Part(NamedTuple):
    """What reading a part took.

    Attributes:
        length: items of the log.
        packets: items fetched, wanted ones and others.
        proof_packets, proof_bytes: those that only prove the others; their Data packets' bytes.
        first_ms: from the question for what is newest to the first verified item at the application.
        whole_s: bytes of all the log's packets at the link's rate, for which whoever reads all of it waits at
            least.
    """

    length: int
    packets: int
    proof_packets: int
    proof_bytes: int
    first_ms: float
    whole_s: float


class _Unread(dict[int, bytes]):
    """Ids of items by number; those that nobody asks for have one, too, of nothing."""

    def __missing__(self, seq: int) -> bytes:
        return seq.to_bytes(32, "big")


def measure(length: int, newest: int, size: int, line: Line) -> Part:
    """Let a reader begin with the `newest` items, each of `size` bytes, of a log of `length` items."""
    author = Identity.from_seed(bytes(32))
    feed = log_name(author.ref)
    writer = LinkedWriter(feed, author.sign, _Unread())
    first = max(1, length - newest + 1)
    proof = {*path(first, 1)} - {first}
    log = {seq: writer.packet(seq, bytes(size)) for seq in sorted({*range(first, length + 1)} | proof)}
    reader = Sparse(
        feed,
        rng=Random(1),
        newest=newest,
        item=0,
        buffer=newest,
        lifetime_ms=4000,
        shortest_ms=1000,
        longest_ms=1000,
    )
    arrived = _read(reader, feed, log, length, line)
    return Part(
        length,
        len(log),
        len(proof),
        sum(len(log[seq]) for seq in proof),
        arrived / MS,
        length * (len(log[length]) + len(_HEADERS)) * 8 / (line.mbit * 1e6),
    )


def _read(reader: Sparse, feed: bytes, log: dict[int, bytes], tip: int, line: Line) -> int:
    """Return when the reader has verified items, ns; the publisher has `log`, and answers at once."""
    link = LinkParameters(bw_mbit=line.mbit, delay_ms=line.delay_ms)
    up, down = Pipe(link, Random(1)), Pipe(link, Random(2))
    flying: list[tuple[int, int, bool, bytes]] = []
    now = number = 0
    reader.start(now)
    while now < _PATIENCE:
        if reader.take_items():
            return now
        for wire in reader.take_outputs():
            for arrival, frame in up.send(now, _HEADERS + wire):
                number += 1
                heappush(flying, (arrival, number, True, frame[len(_HEADERS) :]))
        due = reader.next_deadline()
        if flying and (due is None or flying[0][0] <= due):
            now, _, is_question, packet = heappop(flying)
            if not is_question:
                reader.receive(parse_lp(packet), now)
                continue
            named = split_item(parse_interest(packet).name)
            answer = metadata_packet(feed, tip) if named is None else log[named[1]]
            for arrival, frame in down.send(now, _HEADERS + answer):
                number += 1
                heappush(flying, (arrival, number, False, frame[len(_HEADERS) :]))
        elif due is not None:
            now = max(now, due)
            reader.wake(now)
    raise AssertionError(f"nothing verified of {tip} items after {_PATIENCE // SECOND} s")
