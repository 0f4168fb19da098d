"""The rows of the bench's result, and the figures that they compare."""

from testbed.bench.faces import DOWNSTREAMS
from testbed.bench.figures import Measured, Row, Series, readable

CORE_BAR, COMPILED_CORE_BAR = 150_000, 500_000
"""Targets of the core in packets per CPU second, in plain Python and compiled."""

WAYS = (("UDP forwarding", "feednet"), ("UDP channel", "udp"), ("  in runs", "runs"), ("Unix stream", "unix"))
"""Ways through a forwarder in a process of its own, and their keys in the measurements."""
_ROUND_TRIPS = (("UDP", "udp"), ("Unix", "unix"), ("C echo", "C"))


def lay_out(measured: Measured, missing: dict[str, str], *, is_compiled: bool) -> list[Row]:
    """Return the rows; `missing` has the reasons for a missing "echo" or "pit"."""
    return [
        *_without_sockets(measured, COMPILED_CORE_BAR if is_compiled else CORE_BAR),
        *_through_sockets(measured, missing.get("echo", "")),
        *_pushed_through_sockets(measured),
        *_round_trips(measured),
        _pending(measured, missing.get("pit", "")),
        *_for_scale(measured),
    ]


def _without_sockets(measured: Measured, bar: float) -> list[Row]:
    core, host = measured["core"], measured["host"]
    rows = [
        Row("forwarding core", core, "packets/s", note="no I/O", bar=bar),
        Row("core and links", host, "packets/s", ratio=host.over(core), ratio_of="of core", note="no I/O"),
    ]
    for name, kind in (("native", "native items"), ("SSB", "SSB messages")):
        push, share, rest = (measured[f"{name} {part}"] for part in ("push", "share", "rest"))
        checks = push.counts["verified"] / push.counts["received"]
        note = f"1 in, 2 out, {readable(checks)} verified"
        rows.append(Row(f"push, {kind}", push, "items/s", note=note, ratio=share, ratio_of="Ed25519"))
        rows.append(Row("  without Ed25519", rest, "items/s"))
    return rows


def _through_sockets(measured: Measured, no_echo: str) -> list[Row]:
    """Return a packet's cost on each way, and the resulting rate of exchanges (of two packets)."""
    echo = measured.get("C CPU")
    rows = []
    for what, name in WAYS:
        cost = measured[f"{name} CPU"]
        ratio = cost.over(echo) if echo else None
        row = Row(what, cost, "us/packet", note=_split(measured, name), ratio=ratio, ratio_of="x C echo")
        row.exchanges = _exchanges(cost)
        rows.append(row)
    note = _split(measured, "C") if echo else f"not measured: {no_echo}"
    rows.append(Row("UDP echo in C", echo, "us/packet", note=note, exchanges=echo and _exchanges(echo)))
    return rows


def _exchanges(cost: Series) -> Series:
    return cost.map(lambda us: 1e6 / (2 * us))


def _split(measured: Measured, name: str) -> str:
    user, system = measured[f"{name} user"].median, measured[f"{name} system"].median
    return f"user {readable(user)}, system {readable(system)}"


def _pushed_through_sockets(measured: Measured) -> list[Row]:
    """Return items and deliveries, and deliveries per cost of an exchange on the same way."""
    items, delivered = measured["pushed"], measured["delivered"]
    an_exchange = measured["udp CPU"].map(lambda us: 2 * us)
    ratio = an_exchange.over(delivered.map(lambda rate: 1e6 / rate))
    note = f"1 in, {DOWNSTREAMS} out; UDP channel"
    return [
        Row("push, native items, UDP", items, "items/s", note=note),
        Row("  delivered", delivered, "items/s", ratio=ratio, ratio_of="exchange / delivery"),
    ]


def _round_trips(measured: Measured) -> list[Row]:
    rows = []
    for part, said in (("p50", "median"), ("p99", "99th percentile")):
        echo = measured.get(f"C {part}")
        for what, name in _ROUND_TRIPS:
            series = measured.get(f"{name} {part}")
            if series is not None:
                ratio = series.over(echo) if echo and name == "udp" else None
                row = Row(f"exchange, {what}, {part}", series, "us", note=f"one at a time, {said}")
                row.ratio, row.ratio_of = ratio, "x C echo"
                rows.append(row)
    return rows


def _pending(measured: Measured, no_pit: str) -> Row:
    size = measured.get("pit")
    note = f"{size.counts['pending']:,} pending, packets included" if size else f"not measured: {no_pit}"
    return Row("PIT entry", size, "bytes", note=note)


def _for_scale(measured: Measured) -> list[Row]:
    rows = []
    for name, what, note in (
        ("verify", "Ed25519 verify", "1 kB"),
        ("sign", "Ed25519 sign", "1 kB"),
        ("hash", "SHA-256", "1 kB"),
        ("message", "SSB message", "from_text() and verify()"),
    ):
        packets = measured[name].over(measured["core"].map(lambda rate: 1e6 / rate))
        rows.append(Row(what, measured[name], "us", note=note, ratio=packets, ratio_of="x packet"))
    return rows
