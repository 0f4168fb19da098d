"""Deliberate bugs that fuzzing must find; otherwise finding nothing proves nothing.

Each replaces an expression in a function of the real code, within `planted(name)`.
"""

import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch


class Bug(NamedTuple):
    """A bug: in function `name` of `module`, `wrong` replaces `right`; `target` should find it."""

    target: str
    module: str
    name: str
    right: str
    wrong: str


BUGS = {
    "a number in more bytes than it needs": Bug(
        "wire", "forwarder.wire.tlv", "read_number", "value < _SHORTEST[first]", "False"
    ),
    "an element longer than what it is in": Bug(
        "wire", "forwarder.wire.tlv", "read_header", "if end > limit:", "if end > limit + 1:"
    ),
    "a critical element ignored": Bug(
        "wire", "forwarder.wire.tlv", "check_ignorable", "kind <= 31 or kind & 1", "kind <= 31"
    ),
    "a number of three bytes": Bug(
        "wire", "forwarder.wire.tlv", "read_nni", "not in (4, 8)", "not in (3, 4, 8)"
    ),
    "a Nonce of three bytes": Bug(
        "wire", "forwarder.wire.packet", "parse_interest", "at - start != 4", "at - start not in (3, 4)"
    ),
    "header fields repeated": Bug(
        "wire",
        "forwarder.wire.lp",
        "parse_lp",
        "kind < last or (kind == last and kind != ACK)",
        "kind < last",
    ),
    "a fragment after the last": Bug(
        "wire", "forwarder.wire.lp", "parse_lp", "packet.frag_index >= packet.frag_count", "False"
    ),
    "a component's type unchecked": Bug(
        "wire", "forwarder.wire.name", "_check_component", "not 1 <= kind <= 65535", "kind < 1"
    ),
    "a Nonce put before CanBePrefix": Bug(
        "wire", "forwarder.wire.packet", "Interest.with_nonce", "kind in _BEFORE_NONCE", "kind == NAME"
    ),
    "HopLimit 0 passed on": Bug(
        "node",
        "forwarder.pipelines.interests",
        "InterestPipeline._is_admitted",
        "interest.hop_limit == 0",
        "False",
    ),
    "state made before the name is checked": Bug(
        "node",
        "forwarder.pipelines.interests",
        "InterestPipeline.receive",
        "ends = prefix_ends(interest.name)",
        "self.tables.dead_nonces.add(interest.name, 0, now); ends = prefix_ends(interest.name)",
    ),
    "a forwarding hint unchecked": Bug(
        "node",
        "forwarder.pipelines.interests",
        "InterestPipeline._complete",
        "interest.forwarding_hint and self._has_arrived(interest)",
        "False",
    ),
    "a Nack for nothing": Bug(
        "node",
        "forwarder.pipelines.nacks",
        "NackPipeline.receive",
        "entry is None or record is None or record.nonce",
        "entry is not None and record is not None and record.nonce",
    ),
    "an LLI for what is no item": Bug(
        "wire", "forwarder.wire.packet", "parse_interest", "and is_item_name(interest.name)", "and True"
    ),
    "a message stored without its signature": Bug(
        "ssb",
        "ssb.store.admission",
        "Admission._is_next",
        "message.verify(self._hmac_key)\n    if sequence > 1",
        "if sequence > 1",
    ),
    "arguments that are no list": Bug(
        "ssb", "ssb.transport.calls", "_read_request", "not isinstance(arguments, list)", "False"
    ),
    "a sequence number that is none": Bug(
        "ssb",
        "ssb.replication.history",
        "_number",
        "isinstance(value, bool) or not isinstance(value, int)",
        "False",
    ),
    "a want that is no number": Bug(
        "ssb",
        "ssb.replication.blobs",
        "Blobs.receive",
        "isinstance(value, bool) or not isinstance(value, int)",
        "False",
    ),
    "notes that are no object": Bug(
        "ssb", "ssb.replication.replicator", "Replicator.receive", "not isinstance(value, dict)", "False"
    ),
    "a feed stored that nobody wants": Bug(
        "ssb",
        "ssb.replication.ebt",
        "Ebt._expects",
        "feed in session.exchanges and session.shares(feed)",
        "True",
    ),
    "a content that is no text": Bug(
        "ssb", "ssb.canonical", "parse_bytes", "except UnicodeDecodeError", "except InvalidJson"
    ),
    "a request to delete that is not obeyed": Bug(
        "ssb",
        "ssb.store.contents",
        "Contents.add",
        "self._claims[named].author == message.author",
        "False",
    ),
    "a countersignature unchecked": Bug(
        "ssb",
        "ssb.suites.countersignature",
        "check",
        'not key.verifies(proof["signature"], signed)',
        "False",
    ),
    "a successor's key that has not consented": Bug(
        "ssb",
        "ssb.suites.countersignature",
        "successor_key",
        'key.verifies(suite.get("consent"), agreed)',
        "True",
    ),
    "a chunk of no feed": Bug("tiny", "ssb.tiny.vectors", "read_chunk_vector", "place >= size", "False"),
    "an entry without its signature": Bug(
        "tiny",
        "ssb.tiny.entry",
        "parse",
        "not verify(feed, packet[_SIGNED:], name + packet[:_SIGNED])",
        "False",
    ),
    "a fixed set that grows": Bug(
        "tiny", "ssb.tiny.goset", "GrowOnlySet.receive", "if self.is_fixed:", "if False:"
    ),
    "a feed whose key is too short": Bug(
        "tiny", "ssb.tiny.isp.messages", "_key", "len(value) == KEY", "len(value) > 0"
    ),
    "an answer to a request of others": Bug(
        "tiny",
        "ssb.tiny.isp.provider.provider",
        "Provider._on_answer",
        "route.b.contract != contract.id or route.is_open",
        "route.is_open",
    ),
    "a data feed without an end": Bug(
        "tiny", "ssb.tiny.node", "Node._check_limit", "sequence > limit.entries or", ""
    ),
    "a record without its signature": Bug(
        "mapping",
        "ssb_over_ndn.mapping.record",
        "open_record",
        "not verify(parse_feed(record.author), data.signature, data.signed)",
        "False",
    ),
    "a delegation that is no name": Bug(
        "mapping", "ssb_over_ndn.mapping.record", "_parse", "prefix_ends(content[start:end])", "None"
    ),
    "a record taken for another id's": Bug(
        "mapping", "ssb_over_ndn.mapping.record", "Ledger.add", "record.author != author", "False"
    ),
    "a topic with U+0000": Bug("mqtt", "ssb.mqtt.packets", "_Fields.text", 'if "\\0" in text:', "if False:"),
    "a session that holds any amount": Bug(
        "mqtt", "ssb.mqtt.broker", "Broker._grow", "session.size <= self._bounds.session_bytes", "True"
    ),
    "more sessions than there may be": Bug(
        "mqtt",
        "ssb.mqtt.broker",
        "Broker._connect",
        "not is_known and len(self._sessions) >= self._bounds.sessions",
        "False",
    ),
    "subscriptions that outlive their session": Bug(
        "mqtt", "ssb.mqtt.broker", "Broker._drop", "for each in session.filters:", "for each in ():"
    ),
    "a segment from anywhere": Bug(
        "multicast",
        "ssb.multicast.router",
        "Router._heard",
        "tree is None or port != tree.upstream",
        "tree is None",
    ),
    "a tree that leads back": Bug(
        "multicast", "ssb.multicast.router", "Router._add", "port == tree.upstream", "False"
    ),
    "any number of segments that are waited for": Bug(
        "multicast",
        "ssb.multicast.router",
        "Router._receive_request",
        "number in tree.wanted or len(tree.wanted) < MOST_ASKED",
        "True",
    ),
    "ranges in any order": Bug("multicast", "ssb.multicast.packets", "_request", "first < end or", ""),
    "readers that outlive their session": Bug(
        "moq", "ssb.moq.relay", "Relay._drop", "for reader in self.readers(stream):", "for reader in ():"
    ),
    "a cache without a bound": Bug(
        "moq", "ssb.moq.relay", "Relay._on_object", "if not has_room:", "if False:"
    ),
    "a Request ID beyond the limit": Bug(
        "moq", "ssb.moq.session", "Session._count", " or request >= self._allowed", ""
    ),
    "a change before it is authorised": Bug(
        "management",
        "forwarder.management.manager",
        "Management._on_command",
        "command.check(parameters)",
        "command.run(call); command.check(parameters)",
    ),
    "a route to no face": Bug(
        "management",
        "forwarder.management.manager",
        "Management._on_request",
        "module is not None and command is not None",
        "command is not None or verb",
    ),
    "a null among the names of a table": Bug(
        "captures", "analysis.decode.names", "read_names", '[text or "" for text in written]', "written"
    ),
    "elements in any order in a window": Bug(
        "captures",
        "analysis.decode.tlv_batch",
        "Grammar.walk",
        "(slot > last) & (at <= end)",
        "(slot > 0) & (at <= end)",
    ),
    "an IP packet longer than its frame in a window": Bug(
        "captures",
        "analysis.decode.batch",
        "_transport",
        "(end <= first + records.original[rows])",
        "(end > 0)",
    ),
    "malformed without a reason": Bug(
        "captures",
        "analysis.decode.reference",
        "_malformed",
        'problem=f"{MALFORMED}{reason}"',
        "problem=None",
    ),
    "Data sent to a link that is down": Bug(
        "node", "forwarder.tables.pit", "PitEntry.drop_in_record", "r.face != face", "True"
    ),
}
"""By name."""


_ROOMS = ("forwarder", "ssb", "ssb_over_ndn", "testbed", "analysis", "captures")


def rewritten(bug: Bug) -> tuple[Any, str, Callable[..., Any]]:
    """Return a bug's owner, attribute and buggy function."""
    module = importlib.import_module(bug.module)
    owner: Any = module
    *path, attribute = bug.name.split(".")
    for part in path:
        owner = getattr(owner, part)
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(vars(owner)[attribute])))
    if source.count(bug.right) != 1:
        raise ValueError(f"{bug.name} has {bug.right!r} {source.count(bug.right)} times")
    made: dict[str, Any] = {}
    exec(compile(source.replace(bug.right, bug.wrong), module.__file__ or "", "exec"), vars(module), made)
    return owner, attribute, made[attribute]


@contextmanager
def planted(name: str, instrument: Callable[[Any], Any] = lambda function: function) -> Iterator[None]:
    """Plant a bug during the context, wherever the function is imported."""
    owner, attribute, wrong = rewritten(BUGS[name])
    original = getattr(owner, attribute)
    instrumented = instrument(wrong)
    with ExitStack() as stack:
        stack.enter_context(patch.object(owner, attribute, instrumented))
        for module in list(sys.modules.values()):
            if module is not owner and getattr(module, "__name__", "").startswith(_ROOMS):
                for here, value in list(vars(module).items()):
                    if value is original:
                        stack.enter_context(patch.object(module, here, instrumented))
        yield
