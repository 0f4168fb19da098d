"""`feednet selftest links`: links that do as asked pass, links that do not are found out."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from real_time import holds_in_slower_time

from base.units import MS
from testbed.cli import selftest
from testbed.errors import UserError
from testbed.verify.links import cases, checks, probe
from testbed.verify.links.cases import Step
from testbed.verify.links.checks import Check
from testbed.verify.links.transits import Transit
from topologies.link import LinkParameters
from topologies.mininet import sandbox
from topologies.pipe import Pipe

FRAMES = 300


def judged(frames: int = FRAMES, seed: int = 1) -> dict[str, list[Check]]:
    transits = probe.emulate(frames, seed).transits
    return {case.name: case.judge(transits[case.name]) for case in cases.cases(frames)}


def test_the_emulators_links_do_as_asked() -> None:
    found = judged()
    assert len(found) == 19
    assert [check for each in found.values() for check in each if not check.holds] == []


def changed(**parameters: float | str | None):
    """A Pipe that does something else than it is told, where it is told to do such a thing at all."""

    def change(self: Pipe, link: LinkParameters) -> None:
        usual = LinkParameters()
        asked = {name for name in parameters if getattr(link, name) != getattr(usual, name)}
        Pipe_change(self, replace(link, **{name: parameters[name] for name in asked}))  # type: ignore[arg-type]

    return change


Pipe_change = Pipe.change


@pytest.mark.parametrize(
    ("parameters", "case"),
    [
        ({"bw_mbit": 9.8}, "rate 10 Mbit/s"),
        ({"delay_ms": 20.4}, "delay 20 ms"),
        ({"jitter_ms": 6.5}, "jitter 5 ms uniform"),
        ({"jitter_distribution": "normal"}, "jitter 5 ms pareto"),
        ({"loss_percent": 5.0}, "loss 2 %"),
        ({"loss_burst": 2.0}, "loss 5 % in bursts of 4"),
        ({"loss_bad_percent": 90.0}, "loss 5 % in bursts of 10, 40 and 1 %"),
        ({"duplicate_percent": 12.0}, "duplication 5 %"),
        ({"reorder_percent": 3.0}, "reordering 10 %"),
        ({"max_queue_size": 11}, "queue of 10"),
    ],
)
def test_a_link_that_does_something_else_is_found_out(
    monkeypatch: pytest.MonkeyPatch, parameters: dict[str, float | str], case: str
) -> None:
    monkeypatch.setattr(Pipe, "change", changed(**parameters))
    only = [each for each in cases.cases(1000) if each.name == case]
    monkeypatch.setattr(probe, "cases", lambda _: only)
    transits = probe.emulate(1000, 1).transits
    assert [check for check in only[0].judge(transits[case]) if not check.holds]


def test_a_step_and_a_break_that_do_not_come_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    without = [each._replace(step=None) for each in cases.cases(FRAMES) if isinstance(each.step, Step)]
    assert [case.name for case in without] == ["a step from 10 to 2 Mbit/s", "a break"]
    monkeypatch.setattr(probe, "cases", lambda _: without)
    transits = probe.emulate(FRAMES, 1).transits
    for case in without:
        assert not all(check.holds for check in case.judge(transits[case.name]))


def test_a_sender_that_is_too_slow_measures_no_rate() -> None:
    idle = [Transit(n * 10 * MS, (n * 10 * MS + MS,), 1250) for n in range(10)]
    check = checks.rate(idle, 10.0)
    assert (check.measured, check.holds) == ("0 of 10 frames waited", False)


def test_nothing_measured_is_nothing_held() -> None:
    lost = [Transit(n, (), 100) for n in range(10)]
    assert not checks.rate(lost, 1.0).holds
    assert not checks.delay(lost, 1.0).holds
    assert not checks.jitter(lost, LinkParameters(delay_ms=5.0, jitter_ms=1.0)).holds
    assert not checks.share("loss", 0, 0, 0.1).holds


def test_the_command_ends_with_1_if_something_is_not_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--net", "emulated", "--frames", "200", "--json"]
    good = CliRunner().invoke(selftest.links, arguments, catch_exceptions=False)
    assert good.exit_code == 0
    assert json.loads(good.output)["failed"] == 0
    monkeypatch.setattr(Pipe, "change", changed(delay_ms=50.0))
    bad = CliRunner().invoke(selftest.links, arguments[:-1], catch_exceptions=False)
    assert bad.exit_code == 1
    assert "  NO\n" in bad.output
    assert " as asked" in bad.output.splitlines()[-1]


def test_an_impairment_is_mininets() -> None:
    with pytest.raises(UserError, match="--impairment relay: for Mininet only; leave it out"):
        CliRunner().invoke(
            selftest.links, ["--net", "emulated", "--impairment", "relay"], catch_exceptions=False
        )


@pytest.mark.mininet
@pytest.mark.skipif(bool(reason := sandbox.why_not()), reason=reason or "")
def test_mininets_links_do_as_asked() -> None:
    """Counts and shares, which other programs on this machine cannot change; and in time the rest."""
    emulated = probe.emulate(100, 1).transits

    def wrong(dilation: int) -> list[Check]:
        measured, by, _ = probe.over_mininet(100, 1, "relay", dilation)
        assert by == "relay"
        assert set(measured.transits) == {case.name for case in cases.cases(100)}
        found = []
        for case in cases.cases(100):
            transits = measured.transits[case.name]
            if case.name.startswith(("loss", "duplication", "nothing")):
                # The same seed gives frames the same fate.
                expected = emulated[case.name]
                assert [len(each.received) for each in transits] == [len(each.received) for each in expected]
            if case.name.startswith(("queue", "a break", "delay")):
                found += [check for check in case.judge(transits) if not check.holds]
        return found

    holds_in_slower_time(wrong)
