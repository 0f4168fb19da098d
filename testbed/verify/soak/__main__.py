"""`python -m testbed.verify.soak`, or `make soak`: long traffic, with a final table of the state held."""

import sys
import time
from collections import Counter

import click
from rich.console import Console
from rich.table import Table

from testbed.cli.usage import HELP
from testbed.verify.kit.outcome import Violation
from testbed.verify.soak import real, service
from testbed.verify.soak.virtual import HOUR, Row, Soak

_console = Console(highlight=False, soft_wrap=True)


@click.command(context_settings=HELP)
@click.option("--hours", type=click.FloatRange(min=0.05), default=24, help="Virtual time.")
@click.option("--real-minutes", type=click.FloatRange(min=0.1), help="Real time against a daemon, instead.")
@click.option("--service-minutes", type=click.FloatRange(min=0.05), help="The daemon as a service, instead.")
@click.option("--seed", type=int, default=1, help="Of everything.")
def main(hours: float, real_minutes: float | None, service_minutes: float | None, seed: int) -> None:
    """Let traffic run for long, and check that nothing grows and nobody misses anything.

    Exit status 1 if something does.
    """
    try:
        if service_minutes is not None:
            _as_service(service_minutes, seed)
        elif real_minutes is None:
            _virtually(hours, seed)
        else:
            _really(real_minutes, seed)
    except Violation as violation:
        _console.print(f"{violation}", style="red", markup=False)
        sys.exit(1)


def _really(minutes: float, seed: int) -> None:
    began = time.monotonic()

    def progress(held: real.DaemonState, counts: Counter[str]) -> None:
        lives = sum(count for what, count in list(counts.items()) if " over " in what)
        _console.print(f"{time.monotonic() - began:5.0f} s  {lives:6,} lives  {_state_text(held)}")

    report = real.soak(minutes, seed, progress)
    for when in ("before", "third", "after"):
        _console.print(f"{when}: {_state_text(getattr(report, when))}")
    _console.print("memory, kB a life: " + " ".join(f"{growth:.2f}" for growth in report.growth))
    _console.print(", ".join(f"{what} {count:,}" for what, count in sorted(report.counts.items())))


def _as_service(minutes: float, seed: int) -> None:
    began = said = time.monotonic()

    def is_over(drill: service.Drill) -> bool:
        nonlocal said
        if time.monotonic() >= said + 10:
            said = time.monotonic()
            _console.print(f"{said - began:5.0f} s  {_counts_text(drill)}")
        return time.monotonic() >= began + minutes * 60

    _console.print(f"done: {_counts_text(service.soak(is_over, seed))}")


def _counts_text(drill: service.Drill) -> str:
    counts = {
        **drill.happened,
        **{f"Interests over {scheme}": n for scheme, n in drill.clients.asked.items()},
    }
    said = ", ".join(f"{what} {count:,}" for what, count in sorted(counts.items()))
    return f"{said}; at most {drill.most_kb:,} kB"


def _state_text(held: real.DaemonState) -> str:
    return "  ".join(f"{what} {size:,}" for what, size in held._asdict().items())


def _virtually(hours: float, seed: int) -> None:
    soak = Soak(seed, hours, max(6, round(hours)))
    began = time.process_time()

    def progress(row: Row) -> None:
        _console.print(
            f"{row.until / HOUR:6.2f} h  {row.frames:7,} frames  {row.answered:6,} answered"
            f"  {row.objects:7,.0f} objects  {row.kilobytes:6,.0f} kB  {time.process_time() - began:5.0f} s"
        )

    try:
        soak.run(progress)
    finally:
        _show(soak)


def _show(soak: Soak) -> None:
    if len(soak.rows) < 2:
        return
    first, last = soak.rows[1], soak.rows[-1]
    table = Table(title=f"{len(soak.rows)} spans of {soak.rows[0].until / HOUR:g} h")
    for head in ("", "second", "last", "ratio"):
        table.add_column(head, justify="left" if not head else "right")
    pairs = {"objects, mean": (first.objects, last.objects), "kB, mean": (first.kilobytes, last.kilobytes)}
    pairs["objects of the process"] = (first.process, last.process)
    pairs |= {f"{name}, most": (size, last.tables[name]) for name, size in first.tables.items()}
    for name, (before, after) in pairs.items():
        table.add_row(name, f"{before:,.0f}", f"{after:,.0f}", f"{after / before:.2f}" if before else "")
    _console.print(table)
    said = (("happened", soak.events), ("followers were told", soak.errors), ("asked for", soak.counts()))
    for title, counts in said:
        _console.print(
            f"{title}: " + ", ".join(f"{what} {count:,}" for what, count in sorted(counts.items()))
        )


if __name__ == "__main__":
    main()
