"""Whatever is declared of a link's parameters holds wherever they are read or written."""

import math
from dataclasses import replace

import pytest

from testbed.scenario.sections import TopologySpec
from topologies.conf import parse_conf
from topologies.link import PARAMETERS, LinkParameters
from topologies.model import Link, TopologyError
from topologies.pipe import Pipe, netem, pipe_rng

OTHER = dict.fromkeys(PARAMETERS, 7)
"""A value for each that is not the default's."""


def fate(link: Link) -> list[tuple[int, ...]]:
    """When 200 frames arrive that follow each other closely."""
    pipe = Pipe(link, pipe_rng(1, link, "a"))
    return [pipe.send(n * 10_000, 1000) for n in range(200)]


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_matters_to_frames_and_netem(name: str) -> None:
    """Beside a rate, which makes a queue, and a delay, which jitter varies."""
    plain = Link(
        "a",
        "b",
        **(
            {"bw_mbit": 20, "delay_ms": 1, "loss_percent": 2}
            | {name: LinkParameters.__dataclass_fields__[name].default}
        ),
    )
    changed = replace(plain, **{name: OTHER[name]})
    assert fate(plain) != fate(changed)
    assert netem(plain) != netem(changed)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_is_read_from_a_mini_ndn_file_and_from_a_scenario(name: str) -> None:
    key = name.removesuffix("_mbit").removesuffix("_ms").removesuffix("_percent")
    text = f"[nodes]\na: _\nb: _\n[links]\na:b {key}=7{'ms' if name.endswith('_ms') else ''}\n"
    expected = Link("a", "b", **{name: 7})
    assert parse_conf(text, "t.conf").links == (expected,)
    table = {"links": [{"a": "a", "b": "b"}], "link": {name: 7}}
    assert TopologySpec.model_validate(table).build().links == (expected,)


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS.items())
def test_a_parameter_out_of_range_is_refused(name: str, parameter) -> None:
    values = [parameter.least - 1, math.inf, math.nan, parameter.most + 1]
    values += [parameter.least] if parameter.is_above else []
    for value in values:
        with pytest.raises(TopologyError, match=f"link a:b: {name} must be "):
            Link("a", "b", **{name: value})
