"""`feednet selftest`: verification of the testbed's promises on this machine."""

import json
import sys
from typing import Any

import click

from analysis.export.text import aligned
from testbed.cli.options import MOST, impairment_option
from testbed.errors import UserError, as_user_error
from testbed.experiment.platform import Platform


@click.group()
def selftest() -> None:
    """Measure whether what the testbed promises holds on this machine."""


@selftest.command()
@click.option(
    "--net",
    type=click.Choice(["both", "emulated", "mininet"]),
    default="both",
    help="Where to measure; both leaves out Mininet where it cannot run.",
)
@impairment_option
@click.option(
    "--frames",
    type=click.IntRange(200, 100_000),
    default=1000,
    help="Of each case that is left to chance; losses take four times as many.",
)
@click.option("--seed", type=click.IntRange(0, MOST), default=1, help="Of what is random.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def links(net: str, impairment: str, frames: int, seed: int, as_json: bool) -> None:
    """Measure what links do to frames, and print what was asked against what was measured.

    Exit status 1 if something is not as asked: rates within 1 %, median delays within 0.3 ms, shares within
    the interval that chance explains 999 times in 1000, jitter by the test of Kolmogorov and Smirnov.
    """
    from testbed.verify.links.cases import cases
    from testbed.verify.links.probe import Measured, ProbeError, emulate, over_mininet

    if net == "emulated" and impairment != "auto":
        raise UserError(f"--impairment {impairment}: for Mininet only; leave it out")
    measured: dict[str, Measured] = {}
    said: list[str] = []
    if net != "mininet":
        measured["emulator"] = emulate(frames, seed)
    platform = Platform.chosen("mininet" if net == "mininet" else "auto")
    if platform.net == "mininet" and net != "emulated":
        with as_user_error(ProbeError, OSError):
            found, by, reason = over_mininet(frames, seed, impairment)
        measured[f"Mininet, {by}"] = found
        said += [f"relay in place of netem: {reason}"] if by == "relay" and reason else []
        if found.relay is not None:
            prompt = "at real-time priority" if found.relay["realtime"] else "without real-time priority"
            mean, most = found.relay["late_mean_us"], found.relay["late_max_us"]
            said.append(f"the relay ran {prompt}, and was {mean:.0f} us late on average, {most:.0f} at most")
    elif net == "both":
        said.append(f"without Mininet: {platform.reason}")
    rows: list[dict[str, Any]] = []
    for case in cases(frames):
        for place, found in measured.items():
            if case.name in found.transits:
                for check in case.judge(found.transits[case.name]):
                    rows.append({"case": case.name, "net": place, **check._asdict()})
    failed = sum(not row["holds"] for row in rows)
    if as_json:
        click.echo(json.dumps({"checks": rows, "failed": failed, "notes": said}, indent=2))
    else:
        _print(rows, said, failed)
    if failed:
        sys.exit(1)


def _print(rows: list[dict[str, Any]], said: list[str], failed: int) -> None:
    lines = [["link", "where", "", "asked", "measured", "within", ""]]
    before = ""
    for row in rows:
        name = "" if row["case"] == before else row["case"]
        before = row["case"]
        told = (row["net"], row["what"], row["asked"], row["measured"], row["bound"])
        lines.append([name, *told, "ok" if row["holds"] else "NO"])
    click.echo(aligned(lines, left=len(lines[0])), nl=False)
    for text in said:
        click.echo(text)
    click.echo(f"{len(rows) - failed} of {len(rows)} as asked")
