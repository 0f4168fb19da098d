"""Whatever is declared of a link's parameters holds wherever they are read or written."""

import math
from dataclasses import replace

import pytest

from testbed.scenario.sections import TopologySpec
from topologies.conf import conf_text, parse_conf
from topologies.link import LINK_PARAMETERS, LinkParameters
from topologies.model import Link, TopologyError
from topologies.pipe import Pipe, netem, pipe_rng

OTHER = {
    name: "normal" if each.choices else max(7, int(each.least)) for name, each in LINK_PARAMETERS.items()
}
"""A value for each that is not the default's."""

BESIDE = {"loss_bad_percent": {"loss_burst": 5}, "loss_good_percent": {"loss_burst": 5, "loss_percent": 9}}
"""Without what a parameter says nothing."""


def fate(link: Link) -> list[tuple[int, ...]]:
    """When 200 frames arrive that follow each other closely."""
    pipe = Pipe(link, pipe_rng(1, link, "a"))
    return [pipe.send(n * 10_000, bytes(1000)) for n in range(200)]


@pytest.mark.parametrize("name", sorted({*LINK_PARAMETERS} - {"mtu"}))  # it matters to who sends
def test_a_parameter_matters_to_frames_and_netem(name: str) -> None:
    """Beside a rate, which makes a queue, and a delay, which jitter varies."""
    plain = Link(
        "a",
        "b",
        **(
            {"bw_mbit": 20, "delay_ms": 1, "jitter_ms": 0.1, "loss_percent": 2}
            | BESIDE.get(name, {})
            | {name: LinkParameters.__dataclass_fields__[name].default}
        ),
    )
    changed = replace(plain, **{name: OTHER[name]})
    assert fate(plain) != fate(changed)
    assert netem(plain) != netem(changed)


@pytest.mark.parametrize("name", LINK_PARAMETERS)
def test_a_parameter_is_read_from_a_mini_ndn_file_and_from_a_scenario(name: str) -> None:
    key = name.removesuffix("_mbit").removesuffix("_ms").removesuffix("_percent")
    given = {**BESIDE.get(name, {}), name: OTHER[name]}
    words = [f"{each.removesuffix('_percent')}={value}" for each, value in BESIDE.get(name, {}).items()]
    words.append(f"{key}={OTHER[name]}{'ms' if name.endswith('_ms') else ''}")
    expected = Link("a", "b", **given)
    text = f"[nodes]\na: _\nb: _\n[links]\na:b {' '.join(words)}\n"
    assert parse_conf(text, "t.conf").links == (expected,)
    assert parse_conf(conf_text(parse_conf(text, "t.conf")), "t.conf").links == (expected,)
    table = {"links": [{"a": "a", "b": "b"}], "link": given}
    assert TopologySpec.model_validate(table).build().links == (expected,)


@pytest.mark.parametrize(("name", "parameter"), LINK_PARAMETERS.items())
def test_a_parameter_out_of_range_is_refused(name: str, parameter) -> None:
    values = [parameter.least - 1, math.inf, math.nan, parameter.most + 1]
    values += [parameter.least] if parameter.is_above else []
    values += ["no such word"] if parameter.choices else []
    for value in values:
        with pytest.raises(TopologyError, match=f"link a:b: {name} must be "):
            Link("a", "b", **{name: value})
