"""The program in the box, from its first moment: an interrupt while it still imports ends it without a word.

python -m testbed.experiment.inside_sandbox DIRECTORY LAYERING auto|netem|relay DILATION [hold]
"""

import os
import signal
import sys
from types import FrameType

_INTERRUPTED = 130


def main() -> None:
    """Run a layering over Mininet (testbed.experiment.mininet_run), and end with its exit status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    from testbed.experiment import mininet_run  # takes a second, in which Ctrl-C may come

    status = mininet_run.main()
    sys.stdout.flush()
    os._exit(status)  # nothing is left to clean up: the box goes with this process


def _end(_signal: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
