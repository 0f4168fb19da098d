"""Which nodes share a process in Mininet."""

import os

import pytest

from testbed.hosts.packs import packs
from testbed.scenario.reader import load


@pytest.mark.parametrize("processors", [1, 2, 3, 4])
def test_packs_have_about_equally_many_interfaces(processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    city = load("isp-city")
    found = packs(city, "tiny-isp")
    assert len(found) == processors
    names = [name for pack in found.values() for name in pack or ()]
    assert sorted(names) == sorted(city.network.nodes)
    if processors > 1:
        assert found["isp"] == ("isp",), "it has a hundred interfaces, as all clients have together"
        others = [len(pack or ()) for first, pack in found.items() if first != "isp"]
        assert max(others) - min(others) <= 1


def test_few_nodes_have_a_process_each() -> None:
    found = packs(load("isp-storm"), "tiny-isp")
    assert set(found) == set(load("isp-storm").network.nodes)
    assert set(found.values()) == {None}
