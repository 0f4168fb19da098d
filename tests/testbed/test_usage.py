"""No option is taken in silence and has no effect; and what layerings take is told."""

import pytest
from click.testing import CliRunner

from testbed.cli.main import feednet
from testbed.layerings.registry import LAYERINGS
from testbed.scenario.reference import meanings


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("simulate --seed 3 --seeds 5", "--seeds has no effect with --seed"),
        ("simulate --seed 3 --first 5", "--first has no effect with --seed"),
        ("simulate --seed 3 --keep-going", "--keep-going has no effect with --seed"),
        ("simulate --story x --seed 5", "--seed has no effect with --story"),
        ("simulate --story x --jobs 5", "--jobs has no effect with --story"),
        ("status --interval 3", "--interval has no effect without --watch"),
        ("forward --sample-config --config x", "--config has no effect with --sample-config"),
        ("dissect --install", "--install has no effect without --wireshark-plugin"),
        ("dissect --wireshark-plugin x.pcap", "has no effect with --wireshark-plugin"),
        ("dissect --wireshark-plugin --packet 3", "--packet has no effect with --wireshark-plugin"),
        ("describe nothing", "nothing: no scenario, layering, key or metric has this name"),
    ],
)
def test_an_option_without_effect_is_refused(arguments, said):
    result = CliRunner().invoke(feednet, arguments.split())
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize("layering", LAYERINGS)
def test_a_layering_is_described_with_all_its_parameters(layering):
    result = CliRunner().invoke(feednet, ["describe", layering], catch_exceptions=False)
    assert result.exit_code == 0
    parameters = LAYERINGS[layering].parameters
    for name, field in parameters.model_fields.items():
        (line,) = [line for line in result.output.splitlines() if line.startswith(f"{layering}.{name} ")]
        assert line.split()[1] == str(field.default).lower()
        assert meanings(parameters)[name].split()[0] in line
