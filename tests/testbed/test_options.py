"""Options of a run: one object for the command line and for Python, and what contradicts in it."""

import pickle

import pytest
from click.testing import CliRunner

from testbed.api.experiment import Experiment
from testbed.cli.main import feednet
from testbed.errors import UserError
from testbed.experiment.options import RunOptions
from testbed.experiment.sweeps import sweep
from testbed.scenario import reader as scenarios

CONTRADICTIONS = {
    "--on-spark": "only many runs are a Spark job; add --sweep or --repeat",
    "--jobs 2 --on-spark --repeat 2": "Spark says itself how many runs go side by side; leave one out",
    "--master local --no-report": "--master local: only the analysis runs on Spark; leave --no-report out",
    "--engine sail --no-report": "--engine sail: only the analysis has an engine; leave --no-report out",
    "--engine sail --on-spark --repeat 2": "--on-spark runs all of it on Spark; leave one out",
    "--all-tables --no-report": "only the report of one run has tables; leave --no-report out",
    "--all-tables --repeat 2": "leave it out; of many runs no tables are kept",
    "--hold --repeat 2": "--hold: one run is held, and not many; leave --sweep and --repeat out",
    "--hold --sweep loss=0,1": "--hold: one run is held, and not many; leave --sweep and --repeat out",
}


@pytest.mark.parametrize("typed", CONTRADICTIONS)
def test_contradictions_are_one_line_in_python_as_at_a_terminal(typed: str) -> None:
    with pytest.raises(UserError) as error:
        CliRunner().invoke(feednet, ["run", "line", *typed.split()], catch_exceptions=False)
    assert CONTRADICTIONS[typed] in str(error.value)
    assert "\n" not in str(error.value)
    words = typed.split()
    fields: dict[str, object] = {}
    for place, word in enumerate(words):
        if word.startswith("--"):
            name, value = word[2:].replace("-", "_"), "".join(words[place + 1 : place + 2])
            fields[name] = True if not value or value.startswith("--") else value
    for name in {"jobs", "repeat"} & fields.keys():
        fields[name] = int(str(fields[name]))
    if "sweep" in fields:
        fields["sweeps"] = (fields.pop("sweep"),)
    with pytest.raises(UserError) as in_python:
        RunOptions(**fields)  # type: ignore[arg-type]
    assert str(in_python.value) == str(error.value)


def test_python_and_the_scenario_take_the_object_of_the_command() -> None:
    options = RunOptions(
        items=7, layerings=("lli",), seed=3, net="emulated", parameters={"lli": {"credit": 5}}
    )
    read = scenarios.load("line", options)
    loaded = Experiment.load("line", options).scenario
    assert read == loaded
    assert (read.seed, read.workload.items, read.layerings) == (3, 7, ("lli",))
    assert (
        scenarios.load("line", options, seed=4).seed
        == Experiment.load("line", options, seed=4).scenario.seed
        == 4
    )
    assert options.platform() == ("emulated", "asked for", "auto", 1, False)


def test_many_runs_are_emulated_unless_mininet_is_asked_for() -> None:
    assert RunOptions(repeat=2).platform().net == "emulated"
    assert RunOptions(sweeps=("loss=0,1",)).is_many
    assert not RunOptions().is_many


def test_the_directory_tells_the_scenario_and_whether_runs_are_many() -> None:
    line = scenarios.load("line")
    assert RunOptions().directory(line).as_posix().startswith("runs/line-2")
    assert RunOptions(repeat=2).directory(line).as_posix().startswith("runs/line-sweep-2")


def test_a_job_reaches_an_executor_as_it_is() -> None:
    jobs = sweep.plan("line", RunOptions(sweeps=("loss=0,5",), repeat=2), ["feednet", "run", "line"])
    there = [pickle.loads(pickle.dumps(job)) for job in jobs]
    assert there == jobs
    assert [job.checked() for job in there] == [job.checked() for job in jobs]
