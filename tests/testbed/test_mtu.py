"""The MTU of links: no frame is larger, all arrives, and impossible values are refused in a line."""

from tempfile import NamedTemporaryFile

import pcapng_oracle
import pytest
from simulation import Result, scenario, simulate

from forwarder.links.link import MIN_MTU
from testbed.scenario.sections import Change
from topologies.link import LINK_PARAMETERS
from topologies.model import Link, TopologyError

ETHERNET = 14


def sizes(result: Result) -> list[int]:
    """The IP packets of a run, bytes."""
    with NamedTemporaryFile() as file:
        file.write(result.capture)
        file.flush()
        return [len(captured.frame) - ETHERNET for captured in pcapng_oracle.read(file.name)]


@pytest.mark.parametrize("mtu", [256, 600, 1500])
@pytest.mark.parametrize("layering", ["pull", "lli", "sync-all", "psync", "sync-ps", "ssb"])
def test_no_packet_is_larger_than_the_mtu_and_all_arrive(layering: str, mtu: int) -> None:
    made = scenario(
        layerings=(layering,),
        topology={"generator": "tree", "depth": 2, "fanout": 2, "link": {"delay_ms": 5.0, "mtu": mtu}},
    )
    result = simulate(made, layering)
    for node in made.subscribers:
        assert result.delivered(node) == [*range(1, 21)]
    largest = max(sizes(result))
    assert largest <= mtu
    assert largest > mtu * 0.9  # items are larger than most MTUs


def test_each_link_has_an_mtu_of_its_own() -> None:
    links = [
        {"a": "pub", "b": "r1"},
        {"a": "r1", "b": "s1", "mtu": 300},
        {"a": "r1", "b": "s2"},
    ]
    for layering in ("pull", "lli", "ssb"):
        made = scenario(layerings=(layering,), topology={"links": links}, subscribers=("s1", "s2"))
        result = simulate(made, layering)
        assert result.delivered("s1") == result.delivered("s2") == [*range(1, 21)]
        with NamedTemporaryFile() as file:
            file.write(result.capture)
            file.flush()
            seen = [(x.interface.name, len(x.frame) - ETHERNET) for x in pcapng_oracle.read(file.name)]
        assert max(size for name, size in seen if name == "s1-eth0") <= 300
        if layering != "ssb":  # TCP has the smallest MTU of the network
            assert max(size for name, size in seen if name == "s2-eth0") > 600


@pytest.mark.parametrize("mtu", [0, 255, 1501, 9000, 600.5])
def test_an_impossible_mtu_is_refused_in_a_line(mtu: float) -> None:
    said = f"link a:b: mtu must be a whole number from 256 to 1,500, not {mtu}"
    with pytest.raises(TopologyError) as refused:
        Link("a", "b", mtu=mtu)  # type: ignore[arg-type]
    assert str(refused.value) == said
    with pytest.raises(ValueError, match="mtu"):
        scenario(topology={"generator": "line", "length": 2, "link": {"mtu": mtu}}).network  # noqa: B018


def test_the_least_mtu_is_that_of_the_link_service() -> None:
    assert LINK_PARAMETERS["mtu"].least == MIN_MTU


def test_an_mtu_does_not_change_in_a_run() -> None:
    change = Change(at_ms=1, link_change="a b", set={"mtu": 600.0})
    with pytest.raises(TopologyError, match=r"^link a:b: its mtu stays as it is in a run$"):
        change.changed(Link("a", "b"))
