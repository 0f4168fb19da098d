"""The network as a drawing: nodes in columns by their distance from the publisher."""

from collections import deque
from typing import NamedTuple

from analysis.manifest import Link, Manifest

COLUMN = 132
ROW = 40
MARGIN_X = 46
MARGIN_Y = 24


class PlacedNode(NamedTuple):
    """A node at (x, y), pixels."""

    name: str
    role: str
    x: float
    y: float


class PlacedLink(NamedTuple):
    """A link as a line; `text` says what was done to it."""

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

    roles = {node.name: node.role for node in manifest.topology.nodes}
    texts = {describe(link) for link in manifest.topology.links}
    return Drawing(
        2 * MARGIN_X + COLUMN * max(depth.values()),
        2 * MARGIN_Y + ROW * max(rows - 1, 0),
        [PlacedNode(name, roles.get(name, "forwarder"), *place(name)) for name in neighbours],
        [
            PlacedLink(*place(link.a), *place(link.b), f"{link.a} to {link.b}: {describe(link)}")
            for link in manifest.topology.links
        ],
        texts.pop() if len(texts) == 1 else "",
    )


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
