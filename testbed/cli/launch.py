"""The entry point of `feednet`: Ctrl-C ends it in one line during imports, too."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Import the command line, which is slow, and run it."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)  # until testbed.cli.interrupts takes over: nothing has begun
    from base.plugins import PluginError

    try:
        from testbed.cli.main import feednet
        from testbed.cli.main import main as run

        feednet.load(sys.argv[1:])
    except PluginError as error:  # a metric of another distribution
        sys.exit(f"feednet: {error}")
    run()


def _end(_: int, __: FrameType | None) -> None:
    # No exception: importing modules would convert it.
    os.write(2, b"feednet: interrupted\n")
    os._exit(130)
