"""The program in the box: an interrupt during its imports ends it silently.

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
    from testbed.experiment import mininet_run  # slow, so Ctrl-C may come

    status = mininet_run.main()
    sys.stdout.flush()
    os._exit(status)  # no clean-up: the box ends with this process


def _end(_signal: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
