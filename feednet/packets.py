"""Packets to write and read with Scapy: its layers for NDN, NDNLPv2, controlled push and tinySSB.

`from feednet.packets import Data, Interest, LpPacket`
"""

from feednet import rooms

rooms.check()

from testbed.cli.extras import need  # noqa: E402

need("testbed", by=__name__)

from captures.dissectors import *  # noqa: E402, F403
from captures.dissectors import __all__  # noqa: E402, F401
