"""Effects of a Hello on all feeds of a link. The rules are in analysis/pit/model.py."""

from functools import lru_cache
from typing import NamedTuple

from analysis.pit.entry import Message
from forwarder.wire.hello import Hello, parse_hello
from forwarder.wire.tlv import MalformedPacket


class Change(NamedTuple):
    """Changes by a Hello of the feeds at one interface.

    Attributes:
        renews, renews_upstream: renew ranges whose downstream has a source, or offered upstream ranges.
        drops, drops_upstream: drop all ranges, or all upstream ranges.
        dropped: references of feeds whose downstream drops its range.
        sourced, offered: whether a downstream, or an upstream range, has a source, by reference.
    """

    renews: bool
    renews_upstream: bool
    drops: bool
    drops_upstream: bool
    dropped: frozenset[bytes]
    sourced: dict[bytes, bool]
    offered: dict[bytes, bool]


class Hellos:
    """The Hellos at a node's interfaces, and the renewals requested but not yet granted."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, bool], tuple[int, bytes]] = {}

    def take(self, message: Message, is_in: bool) -> Change | None:
        """Process a received or sent Hello; return its changes, None if there are none."""
        hello = _parsed(message.hello or b"")
        if hello is None:
            return None
        asks, answers = (message.interface, is_in), (message.interface, not is_in)
        is_granted = hello.held is not None and self._asked.get(answers) == (hello.reply, hello.held)
        if is_granted:
            del self._asked[answers]
        if hello.number is not None and hello.held is not None and hello.reply is None:
            self._asked[asks] = hello.number, hello.held
        has_source = {
            state.reference: state.evidence is not None for state in hello.states if state.next is not None
        }
        nothing: dict[bytes, bool] = {}
        return Change(
            is_granted and not is_in,
            is_granted and is_in,
            hello.is_forgotten and is_in,
            hello.is_forgotten and not is_in,
            frozenset(have.reference for have in hello.haves if is_in and have.next is None),
            nothing if is_in else has_source,
            has_source if is_in else nothing,
        )


def may_change(value: bytes) -> bool:
    """Return whether a Hello could change anything; most are keep-alives."""
    hello = _parsed(value)
    if hello is None:
        return False
    is_about_all = hello.held is not None or hello.is_forgotten
    return is_about_all or bool(hello.states) or any(have.next is None for have in hello.haves)


@lru_cache(maxsize=1 << 10)
def _parsed(value: bytes) -> Hello | None:
    try:
        return parse_hello(value)
    except MalformedPacket:
        return None
