"""Runs in real time, on a machine that may be busy with other work."""

from collections.abc import Callable, Sequence

from feednet import LiveRun, everything_delivered

DILATIONS = (1, 4, 16)


def holds_in_slower_time(
    judge: Callable[[int], Sequence[object]], dilations: Sequence[int] = DILATIONS
) -> None:
    """Fail unless a judgement holds, in slower and slower time until it does.

    A process that waits for a processor is late by a time of the machine; that is less and less of a time of
    the run, the more seconds of the machine a second of the run lasts. What is wrong otherwise stays wrong.

    Args:
        judge: runs something at a dilation (captures.network.clock), and returns what does not hold.
        dilations: the dilations that are tried.
    """
    for dilation in dilations:
        if not (wrong := judge(dilation)):
            return
    assert not wrong, f"at dilation {dilation}: {wrong}"


def until_delivered(run: LiveRun) -> None:
    """Script of a run that may settle for long: it ends once everything is delivered, however late."""
    run.wait(everything_delivered)
    run.finish()
