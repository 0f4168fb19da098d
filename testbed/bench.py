"""How fast the forwarder is: `make bench`, or `python -m testbed.bench [--json] [--quick]`.

Theory of operation. Machines are noisy and unlike each other, so what counts is ratios within one run.
Everything is measured once a repetition, one after the other, and a ratio is taken between two figures of
the same repetition; shown is the median of the repetitions with the least and the greatest. Times are
processor time, of this process or of the one that is measured, never the clock on the wall.

- Exchanges: a window of fresh Interests in on one face, then their Data in on the other. A packet is
  counted when it is received; what it costs includes sending it on.
- Pushes: an LLI from each of two downstreams, then the items of a feed, each verified and sent on to both.
- UDP: the same exchanges over loopback through a forwarder in a process of its own, and as many datagrams
  of the same sizes through a C program that does nothing but recv() and send(). With one system call for a
  datagram received and one for a datagram sent there is no less.
- Ed25519, SHA-256 and SSB messages, for scale.

Nothing fails for being slow: a figure below its bar is shown as missed.
"""

import gc
import hashlib
import json
import platform
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any, Protocol
from unittest import mock

import click
from nacl.bindings import crypto_sign_open
from rich.console import Console
from rich.progress import track
from rich.table import Table

from forwarder.feedcache.items import forget_all
from forwarder.forwarder import Forwarder
from forwarder.wire.feed import item_name
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest
from ssb import keys
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.message import Message
from testbed.bench_load import (
    DOWN,
    DOWN_TOO,
    PAYLOAD_BYTES,
    UP,
    WINDOW,
    BenchError,
    Exchanges,
    Feed,
    make_exchanges,
    native_feed,
    new_forwarder,
    new_host,
    ssb_feed,
)
from testbed.bench_udp import Passage, carry, compile_echo, through_echo, through_feednet

CORE_BAR, COMPILED_CORE_BAR = 150_000, 500_000
"""Packets a CPU second that the core is to reach, in plain Python and compiled."""

_GAP_NS = 10_000  # virtual time between packets
_BUDGET_S = 40.0  # no further repetition begins after this
_PIPED_WIDTH = 130


@dataclass(frozen=True)
class Size:
    """How much is measured: exchanges and feed items a repetition, and repetitions."""

    exchanges: int
    items: int
    repetitions: int


FULL = Size(exchanges=16384, items=1024, repetitions=11)
QUICK = Size(exchanges=512, items=32, repetitions=2)


class Node(Protocol):
    """What a Forwarder and a Host have in common."""

    def receive(self, face: int, packet: bytes, now: int, /) -> None:
        """Take in a packet."""
        ...

    def take_outputs(self) -> list[tuple[int, bytes]]:
        """Return what is to be sent."""
        ...

    def next_deadline(self) -> int | None:
        """Return when the node wants to be woken."""
        ...


@dataclass
class Series:
    """A figure over the repetitions, and what was counted in all of them together."""

    values: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, value: float, **counts: int) -> None:
        """Append the figure of one repetition."""
        self.values.append(value)
        self.counts.update(counts)

    def over(self, other: "Series") -> "Series":
        """Return the ratio to another figure, repetition by repetition."""
        return Series([a / b for a, b in zip(self.values, other.values, strict=True)])

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.values)

    def summary(self) -> dict[str, Any]:
        """Return median, least, greatest and the values themselves."""
        return {
            "median": self.median,
            "min": min(self.values),
            "max": max(self.values),
            "samples": self.values,
        }

    def __str__(self) -> str:
        return f"{_readable(self.median)} ({_readable(min(self.values))} - {_readable(max(self.values))})"


def _readable(value: float) -> str:
    """Write three significant digits: there is no more in a figure that varies by a tenth."""
    return f"{float(f'{value:.3g}'):,.10g}"


Measured = defaultdict[str, Series]


@dataclass
class Row:
    """A line of the result.

    Attributes:
        what: what was measured.
        series: the figure, None if there is none; `note` then says why.
        unit: its unit; all times are CPU time.
        ratio, ratio_of: a ratio and how to read it.
        note: whatever else there is to say.
        bar: what the figure is to reach.
    """

    what: str
    series: Series | None
    unit: str
    ratio: Series | None = None
    ratio_of: str = ""
    note: str = ""
    bar: float | None = None

    def met(self) -> bool | None:
        """Tell whether the median reaches the bar; None if there is no bar."""
        return None if self.bar is None or self.series is None else self.series.median >= self.bar

    def as_json(self) -> dict[str, Any]:
        """Return the line for programs."""
        return {
            "what": self.what,
            "unit": self.unit,
            "figure": self.series and self.series.summary(),
            "counts": self.series and dict(self.series.counts),
            "ratio": self.ratio and {"of": self.ratio_of, **self.ratio.summary()},
            "bar": self.bar,
            "met": self.met(),
            "note": self.note,
        }


# --- measuring ---


def measure(size: Size, rounds: Iterable[object]) -> list[Row]:
    """Measure everything once in each round, until time runs out.

    Raises BenchError, or OSError if there are no sockets or processes to be had.
    """
    measured: Measured = defaultdict(Series)
    load = make_exchanges(size.exchanges)
    messages = generate_feed(Random(0), size.items)
    feeds = {"native": native_feed(size.items), "SSB": ssb_feed(messages)}
    gc.collect()
    gc.freeze()  # the bench's own objects are no part of what it measures
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        echo, no_echo = compile_echo(Path(directory))
        for _ in rounds:
            measure_exchanges(measured["core"], new_forwarder(), load)
            measure_exchanges(measured["host"], new_host(), load)
            for name, feed in feeds.items():
                measure_push(measured, name, feed)
            measure_udp(measured, "feednet", through_feednet(), load)
            if echo is not None:
                measure_udp(measured, "C", through_echo(echo), load)
            measure_crypto(measured, messages)
            if time.monotonic() > begun + _BUDGET_S:
                break
    return _rows(measured, no_echo)


def measure_exchanges(series: Series, node: Node, load: Exchanges) -> None:
    """Measure packets a CPU second without I/O."""
    gc.collect()
    now = received = sent = 0
    begun = time.process_time_ns()
    for interests, data in load.windows():
        for face, packets in ((DOWN, interests), (UP, data)):
            for packet in packets:
                now += _GAP_NS
                node.receive(face, packet, now)
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
    """Count verifications inside the `with` block and the CPU time in them, ns."""
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


def measure_udp(
    measured: Measured, name: str, passage: AbstractContextManager[Passage], load: Exchanges
) -> None:
    """Measure what a packet costs the process that it passes through, microseconds."""
    with passage as opened:
        usage = carry(opened, load)
    user, system = usage.user / usage.received, usage.system / usage.received
    measured[f"{name} UDP"].add(user + system, received=usage.received, sent=usage.sent)
    measured[f"{name} user"].add(user)
    measured[f"{name} system"].add(system)


def measure_crypto(measured: Measured, messages: Sequence[Message]) -> None:
    """Measure what signatures, hashes and messages cost, microseconds."""
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
    begun = time.process_time_ns()
    for each in inputs:
        operation(each)
    return (time.process_time_ns() - begun) / len(inputs) / 1e3


# --- showing ---


def _rows(measured: Measured, no_echo: str) -> list[Row]:
    """Lay out what was measured; `no_echo` says why there is no C echo."""
    core, host = measured["core"], measured["host"]
    bar = COMPILED_CORE_BAR if is_compiled() else CORE_BAR
    rows = [
        Row("forwarding core", core, "packets/s", note="no I/O", bar=bar),
        Row("core and links", host, "packets/s", host.over(core), "of core", "no I/O"),
    ]
    for name, kind in (("native", "native items"), ("SSB", "SSB messages")):
        push, share, rest = (measured[f"{name} {part}"] for part in ("push", "share", "rest"))
        checks = push.counts["verified"] / push.counts["received"]
        note = f"1 in, 2 out, {_readable(checks)} verified"
        rows.append(Row(f"push, {kind}", push, "items/s", share, "Ed25519", note))
        rows.append(Row("  without Ed25519", rest, "items/s"))
    feednet, echo = measured["feednet UDP"], measured.get("C UDP")
    ratio = feednet.over(echo) if echo else None
    rows.append(Row("UDP forwarding", feednet, "us/packet", ratio, "x C echo", _split(measured, "feednet")))
    note = _split(measured, "C") if echo else f"not measured: {no_echo}"
    rows.append(Row("UDP echo in C", echo, "us/packet", note=note))
    for name, what, note in (
        ("verify", "Ed25519 verify", "1 kB"),
        ("sign", "Ed25519 sign", "1 kB"),
        ("hash", "SHA-256", "1 kB"),
        ("message", "SSB message", "from_text() and verify()"),
    ):
        packets = Series(
            [us * rate / 1e6 for us, rate in zip(measured[name].values, core.values, strict=True)]
        )
        rows.append(Row(what, measured[name], "us", packets, "x packet", note))
    return rows


def _split(measured: Measured, name: str) -> str:
    user, system = measured[f"{name} user"].median, measured[f"{name} system"].median
    return f"user {_readable(user)}, system {_readable(system)}"


def is_compiled() -> bool:
    """Tell whether the forwarder is compiled (setup.py)."""
    return Path(sys.modules[Forwarder.__module__].__file__ or "").suffix != ".py"


def environment() -> dict[str, Any]:
    """Describe what is measured and on what."""
    return {
        "feednet": version("feednet"),
        "compiled": is_compiled(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def table(rows: Sequence[Row]) -> Table:
    """Lay out the rows for reading."""
    caption = "median (least - greatest); seconds and microseconds of CPU time"
    shown = Table("what", "figure", "unit", "ratio", "note", caption=caption)
    for row in rows:
        notes = [row.note] if row.note else []
        if row.bar is not None:
            notes.append(f"bar {row.bar:,.0f}: {'met' if row.met() else 'missed'}")
        ratio = f"{row.ratio} {row.ratio_of}" if row.ratio else ""
        shown.add_row(row.what, str(row.series or ""), row.unit, ratio, "; ".join(notes))
    return shown


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--quick", is_flag=True, help="A few packets only: shows that it runs, not how fast.")
def bench(as_json: bool, quick: bool) -> None:
    """Measure how fast the forwarder is on this machine, as ratios within one run."""
    size = QUICK if quick else FULL
    errors = Console(stderr=True)
    rounds = track(
        range(size.repetitions),
        "measuring",
        console=errors,
        disable=not errors.is_terminal,
        transient=True,
        auto_refresh=False,  # a thread that draws would be measured too
    )
    rows = measure(size, rounds)
    about = environment()
    if as_json:
        click.echo(json.dumps({**about, "size": asdict(size), "rows": [row.as_json() for row in rows]}))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    kind = "compiled" if about["compiled"] else "plain"
    console.print(f"feednet {about['feednet']}, {kind} Python {about['python']}, {about['system']}")
    console.print(table(rows))


def main() -> None:
    """Run the command; what keeps it from measuring is one line and exit status 1."""
    try:
        bench.main(prog_name="python -m testbed.bench", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (BenchError, OSError) as error:
        click.echo(f"feednet: {error}", err=True)
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        click.echo("feednet: interrupted", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
