# ruff: noqa: E501 (tables with a row a line)
"""Writes the parts of documents that follow from the code, and from the results of studies.

A part of controlled-push.md (packets, state machine, constants) stands between `<!-- generated: name -->` and
`<!-- end -->`; the verdicts of a study, in any document, after `<!-- study: NAME PAGE -->`. To bring them up to date:

    python docs/generate.py

tests/test_protocol_document.py and tests/testbed/test_studies.py fail while they are not.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from forwarder import forwarder as core
from forwarder.feedcache.cache import FeedStore
from forwarder.feedcache.fork import Fork
from forwarder.feedcache.items import open_item
from forwarder.lli import (
    backfill,
    consumer,
    credit,
    estimates,
    forks,
    neighbours,
    ranges,
    table,
    upstream,
    upstreams,
)
from forwarder.lli.producer import Producer
from forwarder.tables import pacing
from forwarder.wire import evidence as evidences
from forwarder.wire import feed as feeds
from forwarder.wire import hello as hellos
from forwarder.wire import lp, name, packet
from forwarder.wire.tlv import elements, read_nni
from ssb import work
from ssb.keys import Identity
from testbed.study import pages
from testbed.verify.kit.story import Step
from testbed.verify.push.family import PUSH
from testbed.verify.push.stories import story

DOCUMENT = Path(__file__).with_name("controlled-push.md")

# Packets: a feed of three items, and what its ends say to each other.

WRITER = Identity.from_seed(bytes(range(32)))
FEED = feeds.feed_name(name.from_uri("/unibas/camera"), WRITER.public_key)


def _item(seq: int, backlink: bytes, payload: bytes) -> packet.Data:
    content = feeds.native_content(backlink, payload)
    name_ = feeds.item_name(FEED, seq)
    return packet.parse_data(
        packet.make_data(name_, content, signature_type=packet.ED25519, sign=WRITER.sign)
    )


FIRST = _item(1, b"", b"one")
SECOND = _item(2, FIRST.digest(), b"two")
OTHER_SECOND = _item(2, FIRST.digest(), b"2")


def _consumer() -> consumer.Consumer:
    return consumer.Consumer(FEED, rng=Random(3), after=1, credit=8, lifetime_ms=60_000)


def lli_packet() -> bytes:
    """Build what a consumer says that holds item 1 and grants up to item 8."""
    subscriber = _consumer()
    subscriber.start(0)
    return subscriber.take_outputs()[0]


def cancel_packet() -> bytes:
    """Build what it says when it has enough."""
    subscriber = _consumer()
    subscriber.start(0)
    subscriber.take_outputs()
    subscriber.cancel(1)
    return subscriber.take_outputs()[0]


def _answer(tip: int, oldest: int) -> bytes:
    log = {2: SECOND} if tip == 2 else {}
    producer = Producer(FEED, log.get, tip=lambda: tip, oldest=lambda: oldest, sign=WRITER.sign)
    producer.receive(packet.parse_interest(lli_packet()), 0)
    return producer.take_outputs()[0]


def item_packet() -> bytes:
    """Build a producer's answer that has item 2, and no more."""
    return _answer(2, 1)


def idle_packet() -> bytes:
    """Build the answer of one that has nothing to push, and holds nothing before item 5."""
    return _answer(4, 5)


def hello_packet() -> bytes:
    """Build a relay's question whether all is as it stands here: items 2 to 8 granted, none has come."""
    have = hellos.Standing(hellos.reference(FEED), 2, 8, evidences.Evidence(1, 1))
    return hellos.make_hello(hellos.Hello(7, held=hellos.membership([have]), haves=(have,)))


def nack_packet() -> bytes:
    """Build the answer of a forwarder that has no room for another feed."""
    node = core.Forwarder(rng=Random(1), feed_store=FeedStore(max_feeds=0))
    node.add_face(1)
    node.receive(1, lli_packet(), 0)
    return node.take_outputs()[0][1]


def fork_packet() -> bytes:
    """Build the proof that the feed is forked at item 2."""
    return Fork(2, open_item(FEED, 2, SECOND), open_item(FEED, 2, OTHER_SECOND)).packet(FEED)


# An exchange: a consumer, a relay and a producer, and what arrives at the ends of the two links.

_NAMES = ("consumer", "relay", "producer")
_MS = story.MS
EXCHANGE = story.Story(
    seed=3,
    nodes=tuple(map(story.Node, _NAMES)),
    links=tuple(story.Link(a, b, delay=10 * _MS) for a, b in pairwise(_NAMES)),
    feeds=(story.Feed("native", 0, ("producer",)),),
    subscribers=(story.Subscriber("reader", "consumer", 0, credit=4, lifetime_ms=60_000),),
    steps=(
        Step(0, "subscribe", ("reader",)),
        *(Step(ms * _MS, "publish", (0, 0, 1)) for ms in (100, 200, 300, 301)),
        Step(400 * _MS, "cancel", ("reader",)),
    ),
    calm=500 * _MS,
    fates=(story.Fate("producer", "relay", 4, "lost"),),  # the frame with item 3
)
"""Four items, the third of which is lost on the first link; then the consumer has enough."""


def exchange() -> str:
    """Return what happens, a line a packet."""
    rows = PUSH.play(EXCHANGE, record=True).rows
    lines = [f"{row.time / 1e6:6.1f} ms  {row.a:>8} -> {row.b:<9} {row.text}" for row in rows if row.b]
    return "\n".join(["```", *lines, "```"])


# Bytes to lines.

_NUMBER, _TEXT, _BYTES, _EVIDENCE, _STANDING = "number", "text", "bytes", "evidence", "standing"

_COMPONENTS = {
    name.GENERIC: ("GenericNameComponent", _TEXT),
    name.KEYWORD: ("KeywordNameComponent", _TEXT),
    name.SEQUENCE: ("SequenceNumNameComponent", _NUMBER),
}
# The protocol's own elements: type, name, place, value, and form.
_OWN: list[tuple[int, str, str, str, str | None]] = [
    (packet.SEND_CREDIT, "SendCredit", "Interest", "NonNegativeInteger: items granted; 0 cancels", _NUMBER),
    (packet.KNOWN, "Known", "Interest", "the sender's evidence, as in Evidence, without a signature", _EVIDENCE),
    (feeds.BACKLINK, "Backlink", "Content of an item", "32 bytes: the id of the item before", _BYTES),
    (feeds.PAYLOAD, "Payload", "Content of an item", "the application's bytes", _TEXT),
    (feeds.SSB_MESSAGE, "SsbMessage", "Content of an item", "a classic SSB message, canonical JSON", _TEXT),
    (feeds.FORK_PROOF, "ForkProof", "Content of a proof", "two Data packets, whole", None),
    (lp.FEED_STATE, "FeedState", "LpPacket", "[Name] Tip Limit [First] [Evidence]", None),
    (lp._TIP, "Tip", "FeedState", "NonNegativeInteger: newest item the sender can push", _NUMBER),
    (lp._LIMIT, "Limit", "FeedState", "NonNegativeInteger: last item the sender will push", _NUMBER),
    (lp._FIRST, "First", "FeedState", "NonNegativeInteger: oldest item the sender can push", _NUMBER),
    (lp._EVIDENCE, "Evidence", "FeedState", "1 byte: hops, plus 0x80 if signed; NonNegativeInteger: number; perhaps 64 bytes: signature", _EVIDENCE),
    (lp.HELLO, "Hello", "LpPacket", "[Number] [Reply] [Granted] [Held] Have* State* [Forgotten]", None),
    (hellos.NUMBER, "Number", "Hello", "NonNegativeInteger", _NUMBER),
    (hellos.REPLY, "Reply", "Hello", "NonNegativeInteger", _NUMBER),
    (hellos.GRANTED, "Granted", "Hello", "8 bytes: digest", _BYTES),
    (hellos.HELD, "Held", "Hello", "8 bytes: membership", _BYTES),
    (hellos.HAVE, "Have", "Hello", "8 bytes: reference; [Next Limit] [Evidence]", _STANDING),
    (hellos.STATE, "State", "Hello", "the same", _STANDING),
    (hellos.FORGOTTEN, "Forgotten", "Hello", "empty", _BYTES),
    (hellos.NEXT, "Next", "Have, State", "NonNegativeInteger: next item to come", _NUMBER),
    (hellos.LIMIT, "Limit", "Have, State", "NonNegativeInteger: last item granted", _NUMBER),
    (hellos.EVIDENCE, "Evidence", "Have, State", "as in FeedState", _EVIDENCE),
]  # fmt: skip
_ELEMENTS: dict[int, tuple[str, str | None]] = {  # None: holds elements
    **{kind: (title, form) for kind, title, _, _, form in _OWN},
    packet.INTEREST: ("Interest", None),
    packet.DATA: ("Data", None),
    name.NAME: ("Name", None),
    packet._NONCE: ("Nonce", _BYTES),
    packet._LIFETIME: ("InterestLifetime", _NUMBER),
    packet._HOP_LIMIT: ("HopLimit", _NUMBER),
    packet._META_INFO: ("MetaInfo", None),
    packet._FRESHNESS: ("FreshnessPeriod", _NUMBER),
    packet._CONTENT: ("Content", None),
    packet._SIGNATURE_INFO: ("SignatureInfo", None),
    packet._SIGNATURE_TYPE: ("SignatureType", _NUMBER),
    packet._SIGNATURE_VALUE: ("SignatureValue", _BYTES),
    lp.LP_PACKET: ("LpPacket", None),
    lp.FRAGMENT: ("Fragment", None),
    lp._NACK: ("Nack", None),
    lp._NACK_REASON: ("NackReason", _NUMBER),
}
_ROW = 16
_KEPT = 8  # bytes shown of a value that is cut short


def dissect(wire: bytes, *, whole: bool = True) -> Iterator[tuple[int, bytes, str, str]]:
    """Yield (depth, bytes, what is left out of them, meaning) of each element of a packet."""
    yield from _dissect(wire, 0, _ELEMENTS, whole)


def _dissect(
    wire: bytes, depth: int, known: dict[int, tuple[str, Any]], whole: bool
) -> Iterator[tuple[int, bytes, str, str]]:
    at = 0
    for kind, start, end in elements(wire, 0, len(wire)):
        title, form = known[kind]
        value = wire[start:end]
        if form is None:
            yield depth, wire[at:start], "", title
            inner = _COMPONENTS if kind == name.NAME else _ELEMENTS
            yield from _dissect(value, depth + 1, inner, whole)
        elif form == _STANDING:
            middle = start + hellos.REFERENCE_BYTES
            yield depth, wire[at:middle], "", f"{title}: the feed's reference"
            yield from _dissect(wire[middle:end], depth + 1, _ELEMENTS, whole)
        else:
            is_cut = not whole and len(value) > _ROW
            shown = wire[at : start + _KEPT] if is_cut else wire[at:end]
            left_out = f"... {len(value) - _KEPT} more" if is_cut else ""
            yield depth, shown, left_out, f"{title}{_meaning(kind, form, value)}"
        at = end


def _meaning(kind: int, form: str, value: bytes) -> str:
    if form == _NUMBER:
        return f" {read_nni(value)}"
    if form == _EVIDENCE:
        said = evidences.decode_evidence(value)
        signed = ", signed, and its signature" if said.proof else ", signed" if said.is_signed else ""
        return f": number {said.number} from {said.hops} hops{signed}"
    if value == WRITER.public_key:
        return ": the writer's key"
    if form == _TEXT:
        return f' "{value.decode()}"'
    return f", {len(value)} bytes" if kind == packet._SIGNATURE_VALUE else ""


def annotated(wire: bytes, *, whole: bool = True) -> str:
    """Return a packet as a fenced block: a line an element, a long one in rows."""
    lines = []
    for depth, shown, left_out, meaning in dissect(wire, whole=whole):
        rows = [shown[at : at + _ROW].hex(" ") for at in range(0, len(shown), _ROW)]
        rows[-1] += f" {left_out}" if left_out else ""
        lines += [f"{row:<50}{'  ' * depth + meaning if row is rows[0] else ''}".rstrip() for row in rows]
    return "\n".join(["```", *lines, "```", f"{len(wire)} bytes."])


# Tables.


def grid(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _type(kind: int) -> str:
    return f"0x{kind:02X}" if kind < 256 else f"0x{kind:04X}"


def registry() -> str:
    """Return the table of TLV types that are this protocol's own."""
    return grid(
        ("type", "decimal", "element", "stands in", "value"),
        [(f"`{_type(kind)}`", str(kind), *rest) for kind, *rest, _ in _OWN],
    )


def state_machine() -> str:
    """Return the holder's transitions as a table: a row a state, a column an event."""
    events = list(upstream.Event)
    rows = [
        (f"`{state.name}`", *(f"`{moves[event].name}`" if event in moves else "" for event in events))
        for state, moves in upstream.TRANSITIONS.items()
    ]
    return grid(("", *(f"`{event.name}`" for event in events)), rows)


def event_list() -> str:
    """Return what each event is."""
    return grid(("event", "happens when"), [(f"`{e.name}`", e.value) for e in upstream.Event])


def diagram() -> str:
    """Return the same as a Mermaid diagram, but for SPENT; events that lead the same way share an arrow."""
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR", "    [*] --> IDLE"]
    for state, moves in upstream.TRANSITIONS.items():
        drawn = {event: to for event, to in moves.items() if event is not upstream.Event.SPENT}
        for target in dict.fromkeys(drawn.values()):
            names = ", ".join(event.name for event, to in drawn.items() if to is target)
            lines.append(f"    {state.name} --> {target.name} : {names}")
    return "\n".join([*lines, "```"])


def range_examples() -> str:
    """Return what becomes of a range 1 .. 8 of which items 1 .. 5 have been sent, by running the code."""
    cases = [
        ("a renewal", 9, 8, 1),
        ("a renewal, the one before it lost", 17, 8, 1),
        ("from the first missing item on", 4, 5, 1),
        ("a probe: all that is left", 6, 3, 1),
        ("just a missing item", 3, 1, 1),
        ("missing items, 1 to 3 let go of by now", 2, 3, 4),
        ("the LLI before, late", 1, 8, 1),
        ("a cancel", 6, 0, 1),
    ]
    rows = []
    for title, first, granted, oldest in cases:
        held = ranges.Ranges()
        held.grant(1, 1, _grant(1, 8, nonce=1), 0, lambda _: FIRST)
        list(held.serve(1, lambda seq: FIRST if seq <= 5 else None, 5, None))
        log = dict.fromkeys(range(oldest, 6), FIRST)
        again = held.grant(1, first, _grant(first, granted, nonce=2), 0, log.get)
        left = held.get(1)
        after = f"{left.next} .. {left.limit}" if left else "none"
        if left and left.again:
            after += f", and {left.again[0]} .. {left.again[-1]} again when at hand"
        sent = f"{first} .. {first + len(again) - 1}" if len(again) > 1 else str(first) if again else ""
        rows.append((f"({first}, {granted})", title, sent, after))
    return grid(("LLI (s, credit)", "it is", "sent again at once", "range after"), rows)


def _grant(first: int, granted: int, *, nonce: int) -> packet.Interest:
    wire = packet.make_interest(feeds.item_name(FEED, first), nonce=nonce, send_credit=granted)
    return packet.parse_interest(wire)


def _ns(value: int) -> str:
    ms = value / 1_000_000
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms:g} ms"


def _ms(value: int) -> str:
    return _ns(value * 1_000_000)


def _size(value: int) -> str:
    return f"{value >> 20} MiB" if value >= 1 << 20 else f"{value} bytes"


def _power(value: int) -> str:
    below = (1 << value.bit_length()) - value
    return f"2^{value.bit_length() - 1}" if below == value else f"2^{value.bit_length()} - {below}"


_CONSTANTS: list[tuple[ModuleType | type, str, Callable[[int], str], str]] = [
    (estimates, "INITIAL_TIMEOUT", _ns, "before there is a measurement: over a continental round trip"),
    (estimates, "MIN_TIMEOUT", _ns, "a scheduler's hiccup is no loss"),
    (estimates, "_GRANULARITY", _ns, "RFC 9002's"),
    (estimates, "MAX_TIMEOUT", _ns, "a path that comes back is found again within this"),
    (upstream, "MAX_TRIES", str, "a link that loses 20 % each way is silent as often in one case of sixty"),
    (estimates, "_MOST_AMBIGUOUS", str, "that many answers in a row are as expected by chance in one case of 27, at a loss of a third"),
    (estimates, "_MOST_BACKOFF", str, "doublings until a round trip is measured"),
    (estimates, "_MIN_REORDER", _ns, "the time of a few packets"),
    (estimates, "_MAX_REORDER_SHIFT", str, "at most two round trips"),
    (upstreams, "FIRST_SEARCH", _ns, "the best next hop alone is asked for a new feed"),
    (upstreams, "GRACE", _ns, "time for a neighbour's answer before downstreams are told"),
    (upstreams, "WAITING", _ns, "the same for a feed that is new here"),
    (upstreams, "SCOUTING", _ns, "time for a cheaper next hop to find its way"),
    (neighbours, "HELLO", _ns, "dead links are noticed within 5 s, at 60 bytes in this time"),
    (neighbours, "AMPLIFICATION", str, "RFC 9000's"),
    (hellos, "MOST_STANDINGS", str, "in a Hello: some 1000 bytes"),
    (hellos, "MOST_PROOFS", str, "beside so many standings, they fit into a frame"),
    (evidences, "MOST_HOPS", str, "the seven bits that a byte has for them"),
    (evidences, "MOST_LEAP", _power, "above the known number: a liar leaves room"),
    (upstream, "IDLE_PROBE", _ns, "usual silence of a feed of unknown rhythm, at most"),
    (upstream, "MAX_IDLE_PROBES", str, "doublings of the time to a probe, where no Hellos are spoken"),
    (upstream, "_LOSSES_REMEMBERED", str, "a path that loses 2 % is one that loses"),
    (upstream, "PULL_WINDOW", str, "items under way through a legacy path"),
    (upstream, "_SOON", _ns, "after a repeated pull: sooner than an author appends by chance"),
    (upstream, "_EARLY_IN_A_ROW", str, "one in so many pulls is given time to be answered by itself"),
    (upstream, "PULL_LIFETIME_MS", _ms, "NDN's usual InterestLifetime"),
    (backfill, "WINDOW", str, "items of the past under way"),
    (backfill, "MAX_ROUNDS", str, "times that every next hop is asked for an item"),
    (ranges, "MOST_AGAIN", str, "a repair is short, and a stranger's must be"),
    (ranges, "REMEMBERED_NONCES", str, "of one downstream's LLIs, and of own ones: more than `PULL_WINDOW`"),
    (forks, "_PROOF_INTERVAL", _ns, "between proofs to one face"),
    (table, "RANGE_BYTES", _size, "a range's part of measured state: face 4, next 8, limit 8, expiry 8"),
    (table, "MOST_FEEDS_PER_FACE", str, "half of the default `max_feeds`"),
    (table, "REMEMBERED", _ns, "an entry's findings outlive it by this"),
    (upstreams, "_BELIEVED", _ns, "an upstream's First, and a silence about the past"),
    (upstreams, "_MOST_REACH", str, "items under way: some 10 MB"),
    (feeds, "LAST_ITEM", _power, "one more can still be counted"),
    (work, "REMEMBERED", str, "genuine items that a process knows"),
    (packet, "SENT_HOP_LIMIT", str, "as far as evidence comes back"),
    (estimates.Window, "SMALLEST", str, "with one item alone there is no gap to see a loss by"),
    (pacing, "_ACTIVE", _ns, "a stream shares a link this long after its last packet"),
    (pacing, "_MARK", _ns, "backlog: CoDel's target, or five full frames"),
    (pacing, "_MOST_BACKLOG", _ns, "backlog, or twenty full frames"),
]  # fmt: skip

_DEFAULTS: list[tuple[Callable[..., Any], str, Callable[[int], str], str]] = [
    (FeedStore, "max_feeds", str, "feeds that a node remembers"),
    (FeedStore, "max_items", str, "items retained a feed"),
    (FeedStore, "max_bytes", _size, "bytes retained a feed"),
    (FeedStore, "max_total_bytes", _size, "bytes retained in all"),
    (upstream.Upstream, "max_lifetime_ms", _ms, "InterestLifetime of a relay's LLI at most"),
    (Producer, "max_pending", str, "classic Interests for items to come, at a producer"),
    (credit.AdaptiveCredit, "smallest", str, "items a step"),
    (credit.AdaptiveCredit, "largest", str, "items a step"),
]  # fmt: skip


def constants() -> str:
    """Return the constants with their values and reasons."""
    rows = []
    for owner, title, form, reason in _CONSTANTS:
        module = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
        rows.append((f"`{title}`", form(getattr(owner, title)), module.rpartition(".")[2], reason))
    for made, title, form, reason in _DEFAULTS:
        value = inspect.signature(made).parameters[title].default
        rows.append((f"`{title}`", form(value), f"{made.__name__}()", reason))
    return grid(("constant", "value", "of", "what it is, and why so"), rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "registry": registry,
    "packet lli": lambda: annotated(lli_packet()),
    "packet cancel": lambda: annotated(cancel_packet(), whole=False),
    "packet item": lambda: annotated(item_packet()),
    "packet idle": lambda: annotated(idle_packet(), whole=False),
    "packet hello": lambda: annotated(hello_packet()),
    "packet nack": lambda: annotated(nack_packet(), whole=False),
    "packet fork": lambda: annotated(fork_packet(), whole=False),
    "exchange": exchange,
    "range examples": range_examples,
    "events": event_list,
    "transitions": state_machine,
    "diagram": diagram,
    "constants": constants,
}

_BLOCK = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def refreshed(text: str) -> str:
    """Return the document with every generated part as the code has it now."""
    return _BLOCK.sub(lambda found: f"{found[1]}{BLOCKS[found[2]]()}\n{found[3]}", text)


if __name__ == "__main__":
    DOCUMENT.write_text(refreshed(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    for document in DOCUMENT.parent.glob("*.md"):
        document.write_text(pages.refreshed(document.read_text(encoding="utf-8")), encoding="utf-8")
