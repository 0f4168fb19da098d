"""Initial inputs of fuzzing: what comes to a name service."""

from base.units import MS
from forwarder.wire.packet import parse_data
from forwarder.wire.parameters import make_interest_with_parameters
from ssb_over_ndn.mapping.messages import make_put, make_query, store_name
from ssb_over_ndn.mapping.record import make_record, split_map_name
from ssb_over_ndn.naming import log_name
from testbed.verify.fuzz.subjects.events import PAUSE, Event, encoded
from testbed.verify.fuzz.subjects.mapping import (
    ANSWER,
    DEVICE,
    HONEST,
    HOSTILE,
    LIFETIME,
    NAME_SERVER,
    NOW,
    PLACE,
    PUT,
    SERVER,
    SIGNED,
    STORAGE,
    UPDATE,
    items,
    record_of,
)


def for_mapping() -> dict[str, bytes]:
    """Return initial inputs: the intended use of each kind, and some forgeries."""
    forged = make_record(HONEST.ref, HOSTILE.sign, 9, (store_name("x"),), now=NOW, lifetime=LIFETIME, ttl=MS)
    names = record_of(HOSTILE)
    content = parse_data(names).content
    named = split_map_name(parse_data(names).name)
    assert named is not None
    metadata = make_interest_with_parameters(log_name(HONEST.ref), b"", nonce=1, lifetime_ms=1, hop_limit=1)
    events = {
        "update": [Event(UPDATE, 0, record_of(HONEST, 2)), Event(UPDATE, 1, record_of(HOSTILE, 2))],
        "forged": [
            Event(UPDATE, 0, forged),
            Event(UPDATE, 1, record_of(HONEST, 3)),
            Event(ANSWER, 0, forged),
        ],
        "query": [Event(SERVER, 0, make_query(HONEST.ref, NAME_SERVER, 1)), Event(SERVER, 0, metadata)],
        "items": [Event(PUT, 0, item) for item in items()],
        "items-of-others": [Event(PUT, 1, item) for item in items()],
        "storage": [
            Event(STORAGE, 0, make_put(HONEST.ref, items()[4], PLACE, 1)),
            Event(STORAGE, 0, metadata),
        ],
        "signed": [Event(SIGNED, 0, content), Event(SIGNED, 1, content * 2), Event(SIGNED, 2, content[:-1])],
        "device": [Event(DEVICE, which, bytes((which,))) for which in range(8)]
        + [Event(DEVICE, 3, record_of(HONEST, 5))],
        "pauses": [Event(PAUSE, which) for which in range(4)]
        + [Event(ANSWER, 0, record_of(HONEST, 2)), Event(PAUSE, 2), Event(ANSWER, 1, names)],
    }
    return encoded(events)
