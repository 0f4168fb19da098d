"""Speed of replication between peers: `python -m testbed.bench.peers.replication [--messages N]`.

Two processes on loopback, each with its store on disk. One holds a feed; the other calls it and stores the
feed. Rates are by wall-clock time, from the call to the last message stored. Bytes are those that TCP
delivers to the receiver. *Live* messages are published one at a time, so none shares a box with another.

Slowness is no failure: a figure on the wrong side of its bar is shown as missed.
"""

import asyncio
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random, SystemRandom

import click

from base.endpoint import Program, Received, StreamEvent, StreamPort
from base.sockets import Sockets
from ssb.canonical import parse
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.options import PeerOptions
from ssb.peer.peer import Peer
from ssb.store.clocks import MemoryClocks
from ssb.store.sqlite import SqliteFeeds
from testbed.bench.figures import Row, figure
from testbed.bench.peers.store import BATCH
from testbed.bench.program import command, report, run

HOST = "127.0.0.1"
LIVE = 200
_POLL_S = 0.002


class _Counting(Peer):
    """A peer that counts the bytes received over TCP."""

    received = 0

    def on_stream(self, event: StreamEvent, now: int) -> None:
        if isinstance(event, Received):
            self.received += len(event.data)
        super().on_stream(event, now)


async def _open(identity: Identity, feeds: SqliteFeeds, wanted: str, port: int) -> tuple[_Counting, Sockets]:
    peer = _Counting(identity, feeds, MemoryClocks(), [wanted], PeerOptions(), SystemRandom())
    sockets = Sockets([Program(peer, {1: StreamPort(port)})], HOST, time.monotonic_ns)
    await sockets.start()
    return peer, sockets


def _send(author: Identity, messages: list[Message], path: Path, port: int, orders: Connection) -> None:
    """Serve a feed without its last messages, which follow one at a time on request."""

    async def serve() -> None:
        with SqliteFeeds(path) as feeds:
            bulk, live = messages[:-LIVE], messages[-LIVE:]
            for start in range(0, len(bulk), BATCH):
                feeds.append(bulk[start : start + BATCH], 0.0)
            peer, sockets = await _open(author, feeds, author.ref, port)
            orders.send("ready")
            for message in live:
                await asyncio.to_thread(orders.recv)
                peer.append([message], time.monotonic_ns())
                sockets.settle()
            await asyncio.to_thread(orders.recv)
            sockets.close()

    asyncio.run(serve())


async def _receive(
    author: str, path: Path, ports: tuple[int, int], orders: Connection, count: int
) -> list[Row]:
    bulk = count - LIVE
    with SqliteFeeds(path) as feeds:
        peer, sockets = await _open(Identity.from_seed(b"r" * 32), feeds, author, ports[1])
        tips = feeds.tips()

        async def until(sequence: int) -> None:
            while tips.get(author, 0) < sequence:
                if peer.connections.refused:
                    raise RuntimeError(f"refused: {dict(peer.connections.refused)}")
                await asyncio.sleep(_POLL_S)

        orders.recv()
        begun, spent = time.perf_counter(), time.process_time()
        peer.add(author, (HOST, ports[0]), time.monotonic_ns(), is_kept=True)
        sockets.settle()
        await until(bulk)
        seconds, processor = time.perf_counter() - begun, time.process_time() - spent
        in_bulk = peer.received - sum(len(stored.compact) for stored in feeds.after(author, 0, bulk))
        before = peer.received
        for number in range(LIVE):
            orders.send("publish")
            await until(bulk + number + 1)
        live = peer.received - before - sum(len(stored.compact) for stored in feeds.after(author, bulk, LIVE))
        orders.send("end")
        sockets.close()
    return [
        figure("replication, messages stored", bulk / seconds, "messages/s", 6_000),
        figure("  by the receiver's processor time", bulk / processor, "messages/s"),
        figure("bytes beyond the message, in bulk", in_bulk / bulk, "bytes/message", 77, is_most=True),
        figure("bytes beyond the message, live", live / LIVE, "bytes/message", 77, is_most=True),
    ]


def _validation(messages: list[Message]) -> Row:
    texts = [message.text for message in messages]
    begun = time.process_time()
    tip = None
    for text in texts:
        message = Message.from_value(parse(text))
        message.verify()
        message.follow(tip)
        tip = message
    return figure("validation", len(texts) / (time.process_time() - begun), "messages/s", 12_000)


@command
@click.option("--messages", type=click.IntRange(min=1000), default=20_000)
@click.option("--ports", type=(int, int), default=(18008, 18009), help="On loopback.")
def bench(messages: int, ports: tuple[int, int], as_json: bool) -> None:
    """Measure how fast a peer replicates a feed from another over loopback."""
    author = Identity.from_seed(b"s" * 32)
    feed = generate_feed(Random(1), messages + LIVE, author)
    figures = [_validation(feed[:5000])]
    here, there = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        sender = multiprocessing.Process(
            target=_send, args=(author, feed, place / "sender", ports[0], there), daemon=True
        )
        sender.start()
        there.close()  # so that the sender's end shows
        try:
            figures += asyncio.run(_receive(author.ref, place / "receiver", ports, here, len(feed)))
        except EOFError:
            raise click.ClickException(f"the sender has ended: is port {ports[0]} free?") from None
        finally:
            sender.terminate()
            sender.join()
    size = sum(len(message.encoded) for message in feed) / len(feed)
    report(f"{messages:,} messages of {size:,.0f} bytes as signed", figures, as_json)


if __name__ == "__main__":
    run(bench, "testbed.bench.peers.replication")
