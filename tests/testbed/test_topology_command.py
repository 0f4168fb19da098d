"""`feednet topology`: what it says of networks, what it writes, what it refuses."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.runs.topology import topology
from testbed.errors import UserError
from topologies.conf import read_conf
from topologies.graphs import read_graphml
from topologies.library import build


def said(*arguments: str) -> list[str]:
    result = CliRunner().invoke(topology, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_a_network_of_the_library() -> None:
    assert said("abilene") == [
        "network   11 nodes, 14 links",
        "degree    2 to 3, 0 leaves",
        "delay     1.327 to 11.037 ms a link, median 5.209 ms",
        "far       seattle and washington: 24.139 ms apart, one way",
        "diameter  5 links",
    ]


def test_a_scenarios_network_and_one_that_falls_apart(tmp_path: Path) -> None:
    assert said("line")[0].startswith("network ")
    (tmp_path / "two.conf").write_text("[nodes]\na: _\nb: _\nc: _\n[links]\na:b _\n")
    assert said(str(tmp_path / "two.conf"))[-1] == "apart     no path joins a and 1 others, such as c"


@pytest.mark.parametrize(("name", "read"), [("n.conf", read_conf), ("n.graphml", read_graphml)])
def test_what_is_written_is_the_network(tmp_path: Path, name: str, read) -> None:
    path = tmp_path / name
    assert said("geant", "--out", str(path))[-1] == f"written   {path}"
    assert read(path).links == build("geant").links
    with pytest.raises(UserError, match="exists already; choose another --out or remove it"):
        said("geant", "--out", str(path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["arpanet"],
            "arpanet: neither a file, nor a scenario, nor in the library; there are abilene, geant",
        ),
        (["geant", "--out", "n.txt"], r"--out n.txt: its name must end in .conf or .graphml"),
        (["/dev/null"], "neither a file, nor a scenario"),
    ],
)
def test_refusals(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        said(*arguments)
