"""npm's ssb-server as a program, where it is or can be installed."""

import os
from pathlib import Path

from stock_peer import node_modules


def path() -> str:
    """Return a PATH that has ssb-server, or skip the test and say why."""
    return f"{node_modules('ssb/ssb_server') / '.bin'}:{os.environ['PATH']}"


def command() -> Path:
    """Return the program, or skip the test and say why."""
    return node_modules("ssb/ssb_server") / ".bin" / "ssb-server"
