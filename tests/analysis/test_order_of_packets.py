"""Packets of a node with several files: tasks may end in any order, and the order of packets is the same."""

from itertools import permutations

import pyarrow as pa

from analysis.tables.shares import _in_order

FILES = {
    "r1-eth0": [(5, 1, "interest"), (7, 2, "interest"), (7, 2, "data"), (9, 3, "nack")],
    "r1-eth1": [(5, 1, "data"), (7, 2, "nack")],
    "r1-eth2": [(4, 1, "data"), (7, 2, "data"), (7, 2, "interest")],
}


def rows(name: str) -> pa.Table:
    times, frames, kinds = zip(*FILES[name], strict=True)
    interface = pa.DictionaryArray.from_arrays([0] * len(times), [name])
    return pa.table({"time": times, "frame": frames, "kind": kinds, "interface": interface})


def test_the_order_does_not_depend_on_that_of_files() -> None:
    orders = [
        _in_order(pa.concat_tables([rows(name) for name in names], promote_options="default")).to_pylist()
        for names in permutations(FILES)
    ]
    assert all(order == orders[0] for order in orders)
    of_one = [row["kind"] for row in orders[0] if (row["interface"], row["frame"]) == ("r1-eth2", 2)]
    assert of_one == ["data", "interest"], "as in the frame"
