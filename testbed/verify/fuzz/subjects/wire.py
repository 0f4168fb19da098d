"""The codec under any bytes: it agrees with the plain reader, and rewritten packets read the same."""

from collections.abc import Callable
from typing import Any

from forwarder.links.link import LinkService
from forwarder.wire.feed import check_feed_name, fork_name, item_name, split_fork, split_item
from forwarder.wire.hello import make_hello, parse_hello
from forwarder.wire.lp import NO_CACHE, make_lp, open_data, open_interest, parse_lp
from forwarder.wire.name import components, from_uri, prefix_ends, to_uri
from forwarder.wire.packet import Data, Interest, parse_data, parse_interest
from forwarder.wire.parameters import parameters_of
from forwarder.wire.persistent import PERSISTENT, is_persistent, make_persistent
from forwarder.wire.tlv import MalformedPacket
from testbed.verify.fuzz.subjects.reading import (
    Fields,
    Invalid,
    elements_of,
    read_data,
    read_hello,
    read_interest,
    read_lp,
    read_name,
)

_SMALL_MTU = 256
_HINT = from_uri("/hint")


class Finding(AssertionError):
    """A subject of fuzzing violates its specification."""


def expect(what: str, *, holds: bool) -> None:
    """Raise Finding unless `holds`."""
    if not holds:
        raise Finding(what)


def check(wire: bytes) -> None:
    """Feed bytes to every parser of forwarder/wire; raise Finding, or whatever a parser should not raise."""
    lp = _both("LpPacket", parse_lp, read_lp, wire)
    interest = _both("Interest", parse_interest, read_interest, wire)
    data = _both("Data", parse_data, read_data, wire)
    _check_name(wire)
    opened = open_data(wire), open_interest(wire)
    if interest is not None:
        expect("an Interest is opened", holds=opened[1] is not None)
        _check_interest(interest)
    if data is not None:
        expect("Data are opened", holds=opened[0] is not None)
        _check_data(data)
    if lp is not None:
        _check_lp(lp)
        if lp.fragment is not wire:
            for parse, read in ((parse_interest, read_interest), (parse_data, read_data)):
                _both("fragment", parse, read, lp.fragment)
    _check_link(wire)


def _both(what: str, parse: Callable[[bytes], Any], read: Callable[[bytes], Fields], wire: bytes) -> Any:
    """Parse and read; return the parsed packet, None if both refuse."""
    try:
        wanted = read(wire)
    except Invalid as reason:
        try:
            parse(wire)
        except MalformedPacket:
            return None
        raise Finding(f"{what} accepted: {reason}") from None
    try:
        parsed = parse(wire)
    except MalformedPacket as reason:
        raise Finding(f"{what} refused: {reason}") from None
    for field, value in wanted.items():
        expect(f"{what}.{field} is {value!r}", holds=getattr(parsed, field) == value)
    return parsed


def _check_interest(interest: Interest) -> None:
    kept = ("name", "can_be_prefix", "must_be_fresh", "lifetime_ms", "send_credit", "known")
    same = [getattr(interest, field) for field in kept]
    changed = [parse_interest(interest.with_nonce(7)), parse_interest(interest.without_hint())]
    expect("a nonce is set", holds=changed[0].nonce == 7)
    expect("a hint is taken out", holds=not changed[1].forwarding_hint)
    changed.append(parse_interest(interest.with_hint((_HINT,))))
    expect("a hint is set", holds=changed[-1].forwarding_hint == (_HINT,))
    if interest.hop_limit != 0:
        lowered = parse_interest(interest.next_hop_wire())
        hop_limit = None if interest.hop_limit is None else interest.hop_limit - 1
        expect("HopLimit is lowered", holds=lowered.hop_limit == hop_limit)
        changed.append(lowered)
    persistent = parse_interest(make_persistent(interest.wire))
    ((_, inside),) = elements_of(interest.wire)
    if PERSISTENT not in dict(elements_of(inside)):  # another application may use that type
        expect("an Interest made persistent is", holds=is_persistent(persistent))
    for other in (*changed, persistent):
        expect("the rest is kept", holds=[getattr(other, field) for field in kept] == same)
    is_persistent(interest)
    parameters = parameters_of(interest)
    expect("parameters are in the packet", holds=parameters is None or parameters in interest.wire)
    for name in (interest.name, *interest.forwarding_hint):
        _check_name(name)


def _check_data(data: Data) -> None:
    expect("a digest has 32 bytes", holds=len(data.digest()) == 32)
    _check_name(data.name)


def _check_lp(lp: Any) -> None:
    if lp.frag_count == 1 and lp.frag_index == 0 and lp.feed is None and lp.first is None:
        fields = {field: getattr(lp, field) for field in type(lp).__slots__}
        for ours in ("fragment", "feed", "first", "hello"):
            del fields[ours]
        no_cache = fields.pop("cache_policy") == NO_CACHE
        again = parse_lp(make_lp(lp.fragment, no_cache=no_cache, **fields))
        expect("NoCache survives make_lp()", holds=(again.cache_policy == NO_CACHE) == no_cache)
        for field, value in fields.items():
            expect(f"{field} survives make_lp()", holds=getattr(again, field) == value)
    if lp.feed is not None:
        _check_name(lp.feed)
    if lp.hello is not None:
        hello = _both("Hello", parse_hello, read_hello, lp.hello)
        if hello is not None:
            value = parse_lp(make_hello(hello)).hello or b""
            expect("a Hello survives make_hello()", holds=parse_hello(value) == hello)


def _check_name(name: bytes) -> None:
    """Check all readers of a Name's value."""
    item, fork = split_item(name), split_fork(name)
    expect("an item's name can be made again", holds=item is None or item_name(*item) == name)
    expect("a fork's name can be made again", holds=fork is None or fork_name(*fork) == name)
    try:
        parts = read_name(name)
    except Invalid:
        for read in (components, prefix_ends, to_uri, check_feed_name):
            try:
                read(name)
            except MalformedPacket:
                continue
            raise Finding(f"{read} accepts what is no name") from None
        return
    ends = prefix_ends(name)
    expect("components", holds=components(name) == parts and len(ends) == len(parts))
    expect("prefixes", holds=[len(components(name[:end])) for end in ends] == [*range(1, len(ends) + 1)])
    expect("URI and back", holds=from_uri(to_uri(name)) == name)
    is_feed = bool(parts) and parts[-1][0] == 8 and len(parts[-1][1]) == 32
    try:
        check_feed_name(name)
    except MalformedPacket:
        is_feed = not is_feed
    expect("a feed's name ends with a key", holds=is_feed)


def _check_link(wire: bytes) -> None:
    """Send a packet in fragments, and reassemble them."""
    try:
        whole = LinkService(1500).receive(wire, 0)
    except MalformedPacket:
        return
    if whole is None:
        return
    try:
        lp = parse_lp(wire)
    except MalformedPacket:
        return
    if lp.fragment and len(wire) - len(lp.fragment) < 100 and len(wire) < 4000:
        sender, receiver = LinkService(_SMALL_MTU), LinkService(_SMALL_MTU)
        frames = sender.send(wire)
        expect("frames fit", holds=all(len(frame) <= _SMALL_MTU - 28 for frame in frames))
        joined = [receiver.receive(frame, 0) for frame in frames]
        expect("fragments are joined", holds=joined[-1] is not None)
        expect("and give the packet", holds=parse_lp(joined[-1] or b"").fragment == lp.fragment)
