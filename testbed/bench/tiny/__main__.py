"""Measure claims of the tinyISP paper, and costs: `python -m testbed.bench.tiny [--messages N] [STUDY...]`"""

from collections.abc import Sequence

import click

from testbed.bench.program import command, report, run
from testbed.bench.tiny.refusal import refusal
from testbed.bench.tiny.storm import storm
from testbed.bench.tiny.studies import CLAIMS, OF_MESSAGES, speed
from testbed.cli.usage import is_typed

OF_CASES = CLAIMS | {"speed": speed, "refusal": refusal, "storm": storm}
"""Studies of fixed cases: claims of the paper, and costs of providers and attacks."""


@command
@click.option(
    "--messages",
    type=click.IntRange(8),
    default=2000,
    help=f"Messages in each of the studies {', '.join(OF_MESSAGES)}.",
)
@click.argument("studies", nargs=-1, type=click.Choice([*OF_MESSAGES, *OF_CASES]))
def bench(messages: int, studies: Sequence[str], as_json: bool) -> None:
    """Measure the claims of the tinyISP paper, and what providers and attacks cost."""
    chosen = studies or [*OF_MESSAGES, *OF_CASES]
    if is_typed("messages") and not OF_MESSAGES.keys() & set(chosen):
        raise click.UsageError(f"--messages has no effect on {' and '.join(chosen)}; leave it out.")
    for name in chosen:
        rows = OF_MESSAGES[name](messages) if name in OF_MESSAGES else OF_CASES[name]()
        report(name, [*rows], as_json, study=name)


if __name__ == "__main__":
    run(bench, "testbed.bench.tiny")
