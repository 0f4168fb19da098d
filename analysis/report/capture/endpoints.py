"""Endpoints behind addresses: captured nodes by name, others by address.

A node has the addresses that it sends from and receives at. Traffic captured at several nodes counts once:
where it was sent if captured there, else where it arrived.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from analysis.files import Rows
from analysis.report.figures.topology import Drawing, PlacedNode, lane, lay_out, size_of
from captures.layers.layers import is_group

MOST_ENDPOINTS = 30
"""Maximum number of endpoints drawn; the rest, those with the fewest bytes, are merged into OTHERS."""

MOST_LANES = 240
"""Maximum number of link directions drawn."""

OTHERS = "all others"
_LETTER = 7.6
"""Width of a letter in the drawing, pixels."""

_RANK = {"out": 0, "": 1, "in": 2}


class Way(NamedTuple):
    """One direction between two addresses as captured at an interface, and the endpoints behind them."""

    layering: str
    node: str
    interface: str
    direction: str
    src: str
    dst: str
    sender: str
    receiver: str
    packets: int
    bytes: int
    data: int
    asks: int


def owners(ways: Rows) -> dict[tuple[str, str], str]:
    """Return the node of an address, by (layering, address), from the rows of captured.ways."""
    claims: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in ways:
        address = {"out": row["src"], "in": row["dst"]}.get(row["direction"] or "")
        if address and not is_group(address):
            claims[row["layering"], address][row["node"]] += row["packets"] + 1
    return {key: min(claim, key=lambda node: (-claim[node], node)) for key, claim in claims.items()}


def counted(ways: Rows) -> list[Way]:
    """Return the ways to count, so that each packet counts once."""
    of = owners(ways)
    every: dict[tuple[str, str, str], list[Way]] = defaultdict(list)
    for row in ways:
        if row["src"] and row["dst"]:
            fields = {name: row[name] for name in Way._fields if name in row}
            fields["direction"] = row["direction"] or ""
            ends = [of.get((row["layering"], row[end]), row[end]) for end in ("src", "dst")]
            if ends[0] == ends[1]:
                ends = [row["src"], row["dst"]]
            fields |= {"sender": ends[0], "receiver": ends[1]}
            every[row["layering"], row["src"], row["dst"]].append(Way(**fields))
    return [way for same in every.values() for way in _once(same)]


def _once(same: list[Way]) -> Iterator[Way]:
    """Yield the captures of one way that count: all senders' captures, or else the largest one."""
    best = min(_RANK[way.direction] for way in same)
    seen = [way for way in same if _RANK[way.direction] == best]
    if best == 0:
        yield from seen
    else:
        yield min(seen, key=lambda way: (-way.packets, way.node, way.interface))


def askers(ways: Rows) -> Rows:
    """Return layering, node, interface, direction of the transactions to count.

    Those out of a node, and those into one from an uncaptured endpoint.
    """
    chosen = {
        (way.layering, way.node, way.interface, direction)
        for way in counted(ways)
        if way.asks
        # A frame without a direction may belong to a transaction with one.
        for direction in ([way.direction] if way.direction else ["", "in", "out"])
    }
    fields = ("layering", "node", "interface", "direction")
    return [dict(zip(fields, key, strict=True)) for key in sorted(chosen)]


def drawn_as(ways: list[Way]) -> dict[str, str]:
    """Return each endpoint's drawn name: its own, or OTHERS beyond the maximum."""
    weight: Counter[str] = Counter()
    for way in ways:
        weight[way.sender] += way.bytes
        weight[way.receiver] += way.bytes
    order = sorted(weight, key=lambda name: (-weight[name], name))
    if len(order) <= MOST_ENDPOINTS:
        return {name: name for name in order}
    return {name: name if place < MOST_ENDPOINTS - 1 else OTHERS for place, name in enumerate(order)}


def draw_endpoints(ways: list[Way], nodes: set[str]) -> tuple[Drawing, int]:
    """Lay the endpoints out, and return the number of omitted directions between them.

    Net senders of Data are at the left; `nodes` are the captured ones.
    """
    names = drawn_as(ways)
    links: Counter[tuple[str, str]] = Counter()
    gives: Counter[str] = Counter(dict.fromkeys(names.values(), 0))
    for way in ways:
        a, b = names[way.sender], names[way.receiver]
        gives[a] += way.data
        gives[b] -= way.data
        if a != b:
            links[a, b] += way.bytes
    kept = sorted(links, key=lambda ends: (-links[ends], ends))
    left_out = len(kept[MOST_LANES:])
    kept = sorted(kept[:MOST_LANES], key=lambda ends: tuple(map(natural_order, ends)))
    order = sorted(gives, key=lambda name: (-gives[name], natural_order(name)))
    ends = [*dict.fromkeys((min(pair), max(pair)) for pair in kept)]
    half = max(34.0, max((len(name) for name in order), default=0) * _LETTER / 2 + 8)
    place = lay_out(sorted(order, key=natural_order), ends, order[:1], 2 * half + 96, 40, half + 6)
    return (
        Drawing(
            *size_of(place, half + 6),
            [PlacedNode(name, _role(name, nodes), *at) for name, at in place.items()],
            [lane(a, b, _sides(a, b, place), "") for a, b in kept],
            "",
            {},
        ),
        left_out,
    )


def _sides(a: str, b: str, place: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Return the ends of a line between two boxes: at the facing sides, so that boxes of a column are
    distinguishable.
    """
    (x1, y1), (x2, y2) = place[a], place[b]
    turn = (x2 > x1) - (x2 < x1)
    return {a: (x1 + turn * half_width(a), y1), b: (x2 - turn * half_width(b), y2)}


def half_width(name: str) -> float:
    """Return half the width of an endpoint's box, pixels."""
    return round(max(27.0, len(name) * _LETTER / 2 + 8), 1)


def natural_order(name: str) -> tuple[Any, ...]:
    """Return a sort key with r2 before r10."""
    parts: list[str] = []
    for letter in name:
        if parts and parts[-1].isdigit() == letter.isdigit():
            parts[-1] += letter
        else:
            parts.append(letter)
    return tuple((0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts)


def _role(name: str, nodes: set[str]) -> str:
    return "group" if is_group(name) else "others" if name == OTHERS else "node" if name in nodes else "alien"


def named_load(load: Rows, names: Mapping[str, str]) -> Rows:
    """Return the rows of captured.load with drawn names as ends."""
    return [
        row | {"sender": names[row["sender"]], "receiver": names[row["receiver"]]}
        for row in load
        if row["sender"] is not None and row["receiver"] is not None
    ]
