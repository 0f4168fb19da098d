"""The network as a drawing: nodes in columns by their distance from the publisher."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from math import hypot
from statistics import fmean
from typing import NamedTuple

from analysis.files import Rows
from analysis.report.figures.plot import Scene, Spec
from analysis.run.manifest import Link, Manifest
from topologies.ranges import contract_ranges

COLUMN = 150
ROW = 46
MARGIN_X = 46
MARGIN_Y = 24
FEW, LARGE = 12, 40
"""Least number of alike nodes, with one link each, that are drawn as one; in networks of more than LARGE
nodes two are enough.
"""
LANE = 5
"""Offset of a link direction from the line between its ends."""
MEASURES = ("bytes", "packets", "lost")


class PlacedNode(NamedTuple):
    """A node at (x, y), pixels."""

    name: str
    role: str
    x: float
    y: float


class PlacedLink(NamedTuple):
    """One direction of a link as a line, parallel to the other; `text` describes changes to the link."""

    sender: str
    receiver: str
    x1: float
    y1: float
    x2: float
    y2: float
    text: str


class Drawing(NamedTuple):
    """A drawing of `width` by `height` pixels; `links_text` if all links are equal, else empty. `groups`: the
    node that is drawn for one of many alike ones.
    """

    width: float
    height: float
    nodes: list[PlacedNode]
    links: list[PlacedLink]
    links_text: str
    groups: dict[str, str]


def _alike(manifest: Manifest) -> dict[str, str]:
    """Return for each of many alike nodes a name of them all: "c1..c9 (9)"; with gaps, "c1 … c9 (5)"."""
    links = manifest.topology.links
    ends = Counter(end for link in links for end in (link.a, link.b))
    ends.update(node for medium in manifest.topology.media for node in medium.members)
    roles = {node.name: node.role for node in manifest.topology.nodes}
    alike: dict[tuple[str, str, str], list[str]] = {}
    for link in links:
        for node, other in ((link.a, link.b), (link.b, link.a)):
            if ends[node] == 1 and ends[other] > 1:
                alike.setdefault((other, link.describe(), roles[node]), []).append(node)
    groups: dict[str, str] = {}
    for nodes in alike.values():
        if len(nodes) >= (2 if len(roles) > LARGE else FEW):
            [first, *more] = contract_ranges(nodes)
            named = f"{nodes[0]} … {nodes[-1]}" if more else first
            groups |= dict.fromkeys(nodes, f"{named} ({len(nodes)})")
    return groups


def draw(manifest: Manifest) -> Drawing:
    """Lay a run's topology out: a medium is a node of its own, joined to its members."""
    topology = manifest.topology
    groups = _alike(manifest)
    joined = [(groups.get(x.a, x.a), groups.get(x.b, x.b), x.describe()) for x in topology.links]
    joined = list(dict.fromkeys(joined))
    joined += [
        (member, medium.name, medium.describe()) for medium in topology.media for member in medium.members
    ]
    roles = {groups.get(node.name, node.name): node.role for node in topology.nodes}
    publishers = dict.fromkeys(groups.get(node, node) for node in manifest.nodes("publisher"))
    margin = max([MARGIN_X, *(4 * len(name) + 10 for name in groups.values())])
    place = lay_out(list(roles), [(a, b) for a, b, _ in joined], list(publishers), margin=margin)
    roles |= {medium.name: "medium" for medium in topology.media}
    texts = {link.describe() for link in topology.links}
    return Drawing(
        *size_of(place, margin),
        [PlacedNode(name, roles.get(name, "forwarder"), *place[name]) for name in place],
        [placed for a, b, text in joined for placed in (lane(a, b, place, text), lane(b, a, place, text))],
        texts.pop() if len(texts) == 1 else "",
        groups,
    )


def lay_out(
    names: Sequence[str],
    links: Sequence[tuple[str, str]],
    first: Sequence[str],
    column: float = COLUMN,
    row_height: float = ROW,
    margin: float = MARGIN_X,
) -> dict[str, tuple[float, float]]:
    """Return the position of each node: beside the middle of its children in the shortest-path tree.

    Nodes of `first` are at the left; all other order follows `names` and `links`.
    """
    neighbours: dict[str, list[str]] = {name: [] for name in names}
    for a, b in links:
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    depth: dict[str, int] = {}
    children: dict[str, list[str]] = {name: [] for name in neighbours}
    roots = []
    for start in [*first, *neighbours]:
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
    # In reverse order of discovery, children precede their parents.
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

    return {name: (margin + column * depth[name], MARGIN_Y + row_height * row[name]) for name in neighbours}


def size_of(place: Mapping[str, tuple[float, float]], margin: float = MARGIN_X) -> tuple[float, float]:
    """Return width and height of a drawing with these node positions."""
    right, low = (max((at[axis] for at in place.values()), default=0) for axis in (0, 1))
    return right + margin, low + MARGIN_Y


def lane(sender: str, receiver: str, place: Mapping[str, tuple[float, float]], text: str) -> PlacedLink:
    """Return a direction of a link, drawn at its own side."""
    (x1, y1), (x2, y2) = place[sender], place[receiver]
    length = hypot(x2 - x1, y2 - y1) or 1.0
    across, along = LANE * (y1 - y2) / length, LANE * (x2 - x1) / length
    x1, y1, x2, y2 = (round(at, 1) for at in (x1 + across, y1 + along, x2 + across, y2 + along))
    return PlacedLink(sender, receiver, x1, y1, x2, y2, text)


def loads(drawing: Drawing, load: Rows, hops: Rows, scene: Scene, links: Sequence[Link] = ()) -> Spec:
    """Return the map's data for each link of the drawing, in order.

    `load` is analysis.tables.link_transits.link_load, without `lost` where unknown; `hops` is
    analysis.tables.link_transits.hop_delays; `links` have known rates. The result has `slices` and the
    `seconds` of each; `links` with their ends, text, and `ns_per_byte`; and for each layering: bytes, packets
    and lost, a list per link with a number per slice, `kinds`, a link's packets by kind, and `hop_ms`, a
    link's median delay. Links of alike nodes, `of` so many, have the mean of these.
    """
    groups, sizes = drawing.groups, Counter(drawing.groups.values())
    places = {(lane.sender, lane.receiver): k for k, lane in enumerate(drawing.links)}
    drawn = [(groups.get(link.a, link.a), groups.get(link.b, link.b), link) for link in links]
    rates = {ends: link.ns_per_byte for a, b, link in drawn for ends in ((a, b), (b, a))}
    slices = 1 + max((row["slice"] for row in load), default=0)
    spec: Spec = {
        "slices": slices,
        "links": [
            {
                "from": lane.sender,
                "to": lane.receiver,
                "text": lane.text,
                "ns_per_byte": rates.get((lane.sender, lane.receiver), 0),
                "of": max(sizes[lane.sender], sizes[lane.receiver], 1),
            }
            for lane in drawing.links
        ],
        "layerings": {},
    }
    for layering in scene.layerings:
        run = scene.runs[layering]
        spec["layerings"][layering] = {
            "seconds": (run.end_ns - run.start_ns) / 1e9 / slices,
            "kinds": [{} for _ in drawing.links],
            "hop_ms": [None for _ in drawing.links],
        } | {what: [[0] * slices for _ in drawing.links] for what in MEASURES}

    def place_of(row: Spec) -> int | None:
        sender, receiver = str(row["sender"]), str(row["receiver"])
        return places.get((groups.get(sender, sender), groups.get(receiver, receiver)))

    for row in load:
        place = place_of(row)
        if place is not None and row["layering"] in spec["layerings"]:
            of = spec["layerings"][row["layering"]]
            n = spec["links"][place]["of"]
            for what in MEASURES:
                of[what][place][row["slice"]] += row.get(what, 0) / n
            kinds = of["kinds"][place]
            kinds[row["kind"]] = kinds.get(row["kind"], 0) + row["packets"] / n
    medians: dict[tuple[str, int], list[float]] = {}
    for row in hops:
        place = place_of(row)
        if place is not None:
            quantiles = row["quantiles_ns"]
            medians.setdefault((row["layering"], place), []).append(quantiles[len(quantiles) // 2] / 1e6)
    for (layering, place), values in medians.items():
        spec["layerings"][layering]["hop_ms"][place] = round(fmean(values), 3)
    for of in spec["layerings"].values():
        _round(of)
    return spec


def _round(of: Spec) -> None:
    """Round a layering's means of alike links in place; counts of single links become whole numbers."""

    def short(value: float) -> float:
        return int(value) if value == int(value) else round(value, 1)

    of["kinds"] = [{kind: short(n) for kind, n in kinds.items()} for kinds in of["kinds"]]
    for what in MEASURES:
        of[what] = [[short(value) for value in slices] for slices in of[what]]
