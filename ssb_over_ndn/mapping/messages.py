"""Messages between devices, resolvers and services, besides records: names, Interests and answers.

- `/ssb/map/<id>/32=update/<digest>`, with a record as ApplicationParameters, updates the name service. The
  answer has the current record: the new one, or a newer one; it is empty if the update was refused.
- `/ssb/map/<id>` requests the record. The answer is the record, or of ContentType NACK if there is none.
- `/ssb/map/<id>/32=ask/<digest>`, with a random number as ApplicationParameters, queries the server itself,
  as caches may hold forged records. The answer has the record, or is empty.
- `/ssb/logs/<id>/32=put/<digest>`, with an item's Data packet as ApplicationParameters, or with none, uploads
  to a storage. The answer has the number of the last stored item with all before it.

Interests find their service by forwarding hints, `/ssb/servers/<k>` and `/ssb/stores/<name>`: routers have
routes to these and not to ids. Answers to updates and uploads have a digest for a signature. A forged one can
keep a device from its service until the next repetition, as a dropped packet can; readers do not depend on
them.
"""

from collections.abc import Sequence
from typing import Final

from forwarder.wire.name import GENERIC, KEYWORD, PARAMETERS_DIGEST, component, components, from_uri
from forwarder.wire.packet import SENT_HOP_LIMIT, Data, Interest, make_data, make_interest
from forwarder.wire.parameters import make_interest_with_parameters
from forwarder.wire.tlv import MalformedPacket, nni, read_nni
from ssb.keys import parse_feed
from ssb_over_ndn.mapping.record import map_name
from ssb_over_ndn.naming import log_name, read_log_name

NACK: Final = 3
"""ContentType of an answer without a record."""

LIFETIME_MS: Final = 1000
_SERVERS: Final = from_uri("/ssb/servers")
_STORES: Final = from_uri("/ssb/stores")
_UPDATE: Final = component(KEYWORD, b"update")
_ASK: Final = component(KEYWORD, b"ask")
_PUT: Final = component(KEYWORD, b"put")
_DENIAL_FRESHNESS_MS: Final = 100


def server_name(number: int) -> bytes:
    """Return the name of a server of the name service, numbered from 0."""
    return _SERVERS + component(GENERIC, b"%d" % number)


def store_name(title: str) -> bytes:
    """Return the name of a storage provider."""
    return _STORES + component(GENERIC, title.encode())


def server_of(author: str, servers: Sequence[bytes]) -> bytes:
    """Return the server of an id's record; ids are spread evenly, as keys are random."""
    return servers[int.from_bytes(parse_feed(author)[:8], "big") % len(servers)]


def make_update(author: str, record: bytes, server: bytes, nonce: int) -> bytes:
    """Build an Interest that updates the name service."""
    return _with_parameters(map_name(author) + _UPDATE, record, server, nonce)


def make_query(author: str, server: bytes, nonce: int) -> bytes:
    """Build an Interest for an id's record."""
    return make_interest(
        map_name(author),
        nonce=nonce,
        can_be_prefix=True,
        must_be_fresh=True,
        lifetime_ms=LIFETIME_MS,
        hop_limit=SENT_HOP_LIMIT,
        forwarding_hint=(server,),
    )


def make_direct_query(author: str, server: bytes, nonce: int) -> bytes:
    """Build an Interest for an id's record that no cache can answer."""
    return _with_parameters(map_name(author) + _ASK, nonce.to_bytes(4, "big"), server, nonce)


def make_put(author: str, item: bytes, store: bytes, nonce: int) -> bytes:
    """Build an Interest that uploads an item's packet; an empty one queries the storage's last item."""
    return _with_parameters(log_name(author) + _PUT, item, store, nonce)


def is_update(rest: bytes) -> bool:
    """Whether the components after the id are those of an update."""
    return _is_with_digest(rest, _UPDATE)


def is_direct_query(rest: bytes) -> bool:
    """Whether the components after the id are those of a direct query."""
    return _is_with_digest(rest, _ASK)


def read_put_name(name: bytes) -> str | None:
    """Return the author of the log in an upload's name; None for other names."""
    author = read_log_name(name)
    if author is None or not _is_with_digest(name[len(log_name(author)) :], _PUT):
        return None
    return author


def make_answer(interest: Interest, content: bytes) -> bytes:
    """Build the answer to an update or an upload."""
    return make_data(interest.name, content)


def make_denial(author: str) -> bytes:
    """Build the answer that an id has no record."""
    return make_data(map_name(author), b"", content_type=NACK, freshness_ms=_DENIAL_FRESHNESS_MS)


def encode_tip(tip: int) -> bytes:
    """Encode the number of a storage's last item."""
    return nni(tip)


def read_tip(data: Data) -> int | None:
    """Decode the number of a storage's last item in an answer to an upload; None if there is none."""
    content = data.content
    return read_nni(content) if len(content) in (1, 2, 4, 8) else None


def _with_parameters(name: bytes, parameters: bytes, hint: bytes, nonce: int) -> bytes:
    return make_interest_with_parameters(
        name,
        parameters,
        nonce=nonce,
        lifetime_ms=LIFETIME_MS,
        hop_limit=SENT_HOP_LIMIT,
        must_be_fresh=True,  # caches may have an earlier answer to the same
        forwarding_hint=(hint,),
    )


def _is_with_digest(name: bytes, mark: bytes) -> bool:
    """Whether a suffix is a mark and a digest of parameters."""
    if not name.startswith(mark):
        return False
    try:
        parts = components(name[len(mark) :])
    except MalformedPacket:
        return False
    return len(parts) == 1 and parts[0][0] == PARAMETERS_DIGEST
