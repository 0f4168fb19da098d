"""The report's plots of tinySSB, bytes sent by cause and stored over time, and its table of parties."""

from collections import Counter, defaultdict

from analysis.columns.rows import summed
from analysis.decode.protocols.tiny import DECLARATION
from analysis.files import Rows
from analysis.report.figures.plot import Figure, Menu, Spec, line, places, with_menus
from analysis.report.figures.wire import stacked_bars
from analysis.run.manifest import Manifest

_NODES = ["all nodes", "the node that sends most"]
_AMOUNTS = {"kB": ("bytes", 1000.0), "packets": ("packets", 1.0), "seconds on air": ("airtime_ns", 1e9)}
_STORES = {"the node that stores most": "most", "mean of all nodes": "mean"}


COUNTED = {
    "contracts_requested": ("onboard_request",),
    "contracts_answered": ("onboard_response",),
    "contracts_opened": ("onboard_ack",),
    "contracts_ended": ("farewell_fin",),
    "feeds_requested": ("sub_req",),
    "feeds_answered": ("sub_resp", "sub_resp_isp"),
    "data_feeds": ("feedhopping_prev",),
    "data_feeds_read": ("feedhopping_fin",),
    "pauses": ("sub_pause",),
}
"""The columns of by_party(), each with the commands that it counts."""


def by_party(rows: Rows) -> Rows:
    """Return layering, node, each of COUNTED, commands and packets; providers first. `rows` are
    analysis.metrics.run.tiny.COMMANDS.
    """
    parties: dict[tuple[str, str], Counter[str]] = {}
    packets = summed(rows, "packets", "layering", "node")
    for row in rows:
        parties.setdefault((row["layering"], row["node"]), Counter())[row["command"]] += row["entries"]
    found = [
        {"layering": layering, "node": node}
        | {column: sum(own[name] for name in names) for column, names in COUNTED.items()}
        | {"commands": own.total(), "packets": packets[layering, node]}
        for (layering, node), own in parties.items()
    ]
    return sorted(
        found, key=lambda row: (row["layering"], -row["contracts_answered"], -row["commands"], row["node"])
    )


def causes(rows: Rows, manifest: Manifest) -> Figure:
    """Return the bytes sent, stacked by kind of packet; `rows` are analysis.metrics.run.tiny.SENT."""
    layerings = {row["layering"] for row in rows}
    amounts: dict[str, defaultdict[tuple[str, str, str], float]] = {
        unit: defaultdict(float) for unit in _AMOUNTS
    }
    of_node = summed(rows, "bytes", "layering", "node")
    for row in rows:
        for unit, (column, divisor) in _AMOUNTS.items():
            amounts[unit][row["layering"], row["node"], row["kind"]] += (row[column] or 0) / divisor
    busiest = {
        layering: max((size, node) for (x, node), size in of_node.items() if x == layering)[1]
        for layering in layerings
    }
    seen = {row["kind"] for row in rows}
    kinds = [kind for kind in DECLARATION.kinds if kind in seen]
    stack = [(kind, DECLARATION.kinds[kind], f"--own-{(at + 5) % 15}") for at, kind in enumerate(kinds)]
    units = [unit for unit in _AMOUNTS if any(amounts[unit].values())]

    def draw(unit: str, who: str) -> tuple[list[Spec], Spec]:
        shown: defaultdict[tuple[str, str], float] = defaultdict(float)
        for (layering, node, kind), amount in amounts[unit].items():
            if who == _NODES[0] or node == busiest[layering]:
                shown[layering, kind] += amount
        return stacked_bars(shown, stack, dict.fromkeys(layerings, 1.0), manifest, unit, f"{unit} sent")

    return with_menus(
        "tiny_causes",
        "What tinySSB sends, by what packets are",
        "Stacked bars, one for each layering: what was sent, of each kind of packet",
        [Menu("amount", units), Menu("nodes", _NODES)],
        draw,
        ("kind", "layering", "amount"),
    )


def storage(rows: Rows, manifest: Manifest) -> Figure:
    """Return stored bytes over time; `rows` are analysis.metrics.run.tiny.STORED."""
    place_of = places(manifest.layerings)

    def draw(which: str) -> tuple[list[Spec], Spec]:
        data = []
        for layering in manifest.layerings:
            own = [row for row in rows if row["layering"] == layering]
            if own:
                x = [round(row["time_ns"] / 1e9, 3) for row in own]
                y = [round(row[_STORES[which]] / 1000, 3) for row in own]
                data.append(line(place_of[layering], layering, x, y, shape="hv"))
        return data, {
            "xaxis": {"title": {"text": "time since the start of the run, s"}, "rangemode": "tozero"},
            "yaxis": {"title": {"text": "kB of packets stored"}, "rangemode": "tozero"},
        }

    return with_menus(
        "tiny_storage",
        "What tinySSB stores",
        "Lines, one for each layering: kB of packets in a node\u2019s store, over time",
        [Menu("node", [*_STORES])],
        draw,
        ("layering", "s", "kB"),
    )
