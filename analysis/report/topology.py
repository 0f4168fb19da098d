"""The network as a drawing: nodes in columns by their distance from the publisher."""

from collections import deque
from math import hypot
from typing import NamedTuple

from analysis.manifest import Link, Manifest
from analysis.paths import ns_per_byte
from analysis.report.plot import Rows, Spec

COLUMN = 150
ROW = 46
MARGIN_X = 46
MARGIN_Y = 24
LANE = 5
"""How far a direction of a link is drawn from the line between its ends."""
MEASURES = ("bytes", "packets", "lost")


class PlacedNode(NamedTuple):
    """A node at (x, y), pixels."""

    name: str
    role: str
    x: float
    y: float


class PlacedLink(NamedTuple):
    """One direction of a link as a line, beside that of the other; `text` says what was done to the link."""

    sender: str
    receiver: str
    x1: float
    y1: float
    x2: float
    y2: float
    text: str


class Drawing(NamedTuple):
    """A drawing of `width` by `height` pixels; `links_text` if all links are alike, else empty."""

    width: float
    height: float
    nodes: list[PlacedNode]
    links: list[PlacedLink]
    links_text: str


def draw(manifest: Manifest) -> Drawing:
    """Lay a topology out: each node beside the middle of its children in the tree of shortest paths."""
    neighbours: dict[str, list[str]] = {node.name: [] for node in manifest.topology.nodes}
    for link in manifest.topology.links:
        neighbours.setdefault(link.a, []).append(link.b)
        neighbours.setdefault(link.b, []).append(link.a)
    depth: dict[str, int] = {}
    children: dict[str, list[str]] = {name: [] for name in neighbours}
    roots = []
    for start in [*manifest.nodes("publisher"), *neighbours]:
        if start in depth:
            continue
        roots.append(start)
        depth[start] = 0
        queue = deque([start])
        while queue:
            name = queue.popleft()
            for peer in neighbours[name]:
                if peer not in depth:
                    depth[peer] = depth[name] + 1
                    children[name].append(peer)
                    queue.append(peer)
    row: dict[str, float] = {}
    rows = 0
    # Children come before their parents in reverse order of discovery along each branch.
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        name, is_done = stack.pop()
        if not children[name]:
            row[name] = rows
            rows += 1
        elif is_done:
            row[name] = (row[children[name][0]] + row[children[name][-1]]) / 2
        else:
            stack.append((name, True))
            stack += [(child, False) for child in reversed(children[name])]

    def place(name: str) -> tuple[float, float]:
        return MARGIN_X + COLUMN * depth[name], MARGIN_Y + ROW * row[name]

    def lanes(link: Link) -> list[PlacedLink]:
        (x1, y1), (x2, y2) = place(link.a), place(link.b)
        length = hypot(x2 - x1, y2 - y1) or 1.0
        across, along = LANE * (y1 - y2) / length, LANE * (x2 - x1) / length
        text = describe(link)
        there = _lane(link, text, x1 + across, y1 + along, x2 + across, y2 + along)
        back = _lane(link, text, x2 - across, y2 - along, x1 - across, y1 - along)
        return [there, back._replace(sender=link.b, receiver=link.a)]

    roles = {node.name: node.role for node in manifest.topology.nodes}
    texts = {describe(link) for link in manifest.topology.links}
    return Drawing(
        2 * MARGIN_X + COLUMN * max(depth.values()),
        2 * MARGIN_Y + ROW * max(rows - 1, 0),
        [PlacedNode(name, roles.get(name, "forwarder"), *place(name)) for name in neighbours],
        [lane for link in manifest.topology.links for lane in lanes(link)],
        texts.pop() if len(texts) == 1 else "",
    )


def _lane(link: Link, text: str, x1: float, y1: float, x2: float, y2: float) -> PlacedLink:
    return PlacedLink(link.a, link.b, round(x1, 1), round(y1, 1), round(x2, 1), round(y2, 1), text)


def loads(drawing: Drawing, load: Rows, hops: Rows, manifest: Manifest) -> Spec:
    """Return what the map shows of each of the drawing's links, in their order, for the page's own script.

    `load` is analysis.crossings.link_load, `hops` analysis.crossings.hop_delays. The result has `slices` and
    `seconds` that one lasts; `links`, each with its ends, text, and `ns_per_byte`; and for each layering:
    bytes, packets and lost, each a list a link with a number a slice, `kinds`, a link's packets by kind, and
    `hop_ms`, a link's median delay.
    """
    places = {(lane.sender, lane.receiver): k for k, lane in enumerate(drawing.links)}
    rates = {
        ends: ns_per_byte(link)
        for link in manifest.topology.links
        for ends in ((link.a, link.b), (link.b, link.a))
    }
    slices = 1 + max((row["slice"] for row in load), default=0)
    told: Spec = {
        "slices": slices,
        "links": [
            {
                "from": lane.sender,
                "to": lane.receiver,
                "text": lane.text,
                "ns_per_byte": rates[lane.sender, lane.receiver],
            }
            for lane in drawing.links
        ],
        "layerings": {},
    }
    for layering in manifest.layerings:
        run = manifest.runs[layering]
        told["layerings"][layering] = {
            "seconds": (run.end_ns - run.start_ns) / 1e9 / slices,
            "kinds": [{} for _ in drawing.links],
            "hop_ms": [None for _ in drawing.links],
        } | {what: [[0] * slices for _ in drawing.links] for what in MEASURES}
    for row in load:
        place = places.get((row["sender"], row["receiver"]))
        if place is not None and row["layering"] in told["layerings"]:
            of = told["layerings"][row["layering"]]
            for what in MEASURES:
                of[what][place][row["slice"]] += row[what]
            kinds = of["kinds"][place]
            kinds[row["kind"]] = kinds.get(row["kind"], 0) + row["packets"]
    for row in hops:
        place = places.get((row["sender"], row["receiver"]))
        if place is not None:
            quantiles = row["quantiles_ns"]
            told["layerings"][row["layering"]]["hop_ms"][place] = round(
                quantiles[len(quantiles) // 2] / 1e6, 3
            )
    return told


def describe(link: Link) -> str:
    """Say what a link does to frames: "10 Mbit/s, 10 ms, 1 % loss"."""
    said = [
        f"{link.bw_mbit:g} Mbit/s" if link.bw_mbit else "unlimited rate",
        f"{link.delay_ms:g} ms delay",
    ]
    if link.jitter_ms:
        said.append(f"{link.jitter_ms:g} ms jitter")
    said.append(f"{link.loss_percent:g} % loss" if link.loss_percent else "no loss")
    if link.max_queue_size:
        said.append(f"queue of {link.max_queue_size} frames")
    return ", ".join(said)
