"""The registry of protocols over TCP that the analysis reads, besides NDN."""

from analysis.decode.protocols.append_poll import AppendPoll
from analysis.decode.protocols.stream_protocol import StreamProtocol

PROTOCOLS: dict[str, StreamProtocol] = {"append-poll": AppendPoll()}
"""Protocols by the name that a layering gives of its own."""
