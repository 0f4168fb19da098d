"""Scapy layers for NDN, NDNLPv2, the packets of controlled push and tinySSB, and a plugin for Wireshark.

    from captures.dissectors import Interest, Data, LpPacket
    bytes(Ether() / IP() / UDP() / Interest(name="/a/b", can_be_prefix=True))
    Data(wire).show()

Lengths, digests and plain-digest signatures are computed; names are URIs with the marker components of the
NDN naming conventions (revision 3). Bytes that are no such packet become Raw, never an exception. A layer
holds its packet to every rule of the format, a forwarder only to those that it needs, so a layer may refuse
what a forwarder forwards. Importing this package binds the layers to their ports and Ethertype.
"""

from pathlib import Path

from captures.dissectors.binding import ETHERTYPE, MULTICAST_PORT, NDN, PORT, NdnStream
from captures.dissectors.feed import ForkProof, NativeItem, SsbItem
from captures.dissectors.hello import Hello, Standing
from captures.dissectors.lp import FeedState, LpPacket
from captures.dissectors.ndn import (
    Data,
    Interest,
    KeyLocator,
    MetaInfo,
    Selectors,
    SignatureInfo,
    ValidityPeriod,
)
from captures.dissectors.summary import describe
from captures.dissectors.tiny import (
    TinyChunk,
    TinyChunkVector,
    TinyClaim,
    TinyEntry,
    TinyNovelty,
    TinySsb,
    TinyWant,
)

WIRESHARK_PLUGIN = Path(__file__).with_name("feednet.lua")
"""Plugin for Wireshark and tshark."""
WIRESHARK_PLUGINS = Path("~/.local/lib/wireshark/plugins")
"""A user's plugin directory of both."""

__all__ = [
    "ETHERTYPE",
    "MULTICAST_PORT",
    "NDN",
    "PORT",
    "WIRESHARK_PLUGIN",
    "WIRESHARK_PLUGINS",
    "Data",
    "FeedState",
    "ForkProof",
    "Hello",
    "Interest",
    "KeyLocator",
    "LpPacket",
    "MetaInfo",
    "NativeItem",
    "NdnStream",
    "Selectors",
    "SignatureInfo",
    "SsbItem",
    "Standing",
    "TinyChunk",
    "TinyChunkVector",
    "TinyClaim",
    "TinyEntry",
    "TinyNovelty",
    "TinySsb",
    "TinyWant",
    "ValidityPeriod",
    "describe",
]
