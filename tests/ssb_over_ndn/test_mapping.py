"""The name service and its storages: what they believe and refuse, and that logs get to their readers."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.units import MS
from forwarder.management.keys import validity_of, validity_period
from forwarder.wire.name import NAME, VERSION, component, from_uri
from forwarder.wire.packet import ED25519, Data, make_data, parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket, element, nni
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb_over_ndn.mapping.messages import (
    make_direct_query,
    make_put,
    make_query,
    make_update,
    read_tip,
    server_name,
    server_of,
    store_name,
)
from ssb_over_ndn.mapping.record import (
    LINK,
    Ledger,
    RefusedRecord,
    make_record,
    map_name,
    open_record,
    read_record,
)
from ssb_over_ndn.mapping.resolver import Resolver
from ssb_over_ndn.mapping.server import NameServer
from ssb_over_ndn.mapping.storage import Storage
from ssb_over_ndn.naming import message_packet

S = 1000 * MS
ANN, BEN = (Identity.from_seed(bytes([n]) * 32) for n in (1, 2))
HERE, THERE = store_name("here"), store_name("there")
SERVER = server_name(0)
NOW = 1_700_000_000 * S


def record(
    seq: int = 1, storage: bytes = HERE, *, of: Identity = ANN, by: Identity | None = None, now: int = NOW
) -> bytes:
    sign = (by or of).sign
    return make_record(of.ref, sign, seq, (storage,), now=now, lifetime=60 * S, ttl=2 * S)


def of_parts(name: bytes, content: bytes, **fields: object) -> Data:
    chosen = {
        "content_type": LINK,
        "freshness_ms": 1000,
        "signature_type": ED25519,
        "more_info": validity_period(NOW, NOW + 60 * S),
        "sign": ANN.sign,
    }
    return parse_data(make_data(name, content, **{**chosen, **fields}))  # type: ignore[arg-type]


# Records


def test_a_record_says_where_a_log_is() -> None:
    found = read_record(record(7, THERE), NOW + 5 * S)
    assert (found.author, found.seq, found.storages, found.ttl) == (ANN.ref, 7, (THERE,), 2 * S)
    assert found.begins == NOW
    assert found.expires == NOW + 61 * S - 1  # a bound includes the second that it names


def test_a_record_is_a_link_object() -> None:
    """NDN packet format 0.3, "Link Object": ContentType LINK, names in Content."""
    data = parse_data(record())
    assert (data.content_type, data.content) == (1, element(NAME, HERE))


V1 = component(VERSION, nni(1))


@pytest.mark.parametrize(
    ("reason", "data"),
    [
        ("forged", parse_data(record(by=BEN))),
        ("expired", parse_data(record(now=NOW - 62 * S))),
        ("expired", parse_data(record(now=NOW + 2 * S))),
        ("format", of_parts(map_name(ANN.ref), element(NAME, HERE))),
        ("format", of_parts(map_name(ANN.ref) + V1 + V1, element(NAME, HERE))),
        ("format", of_parts(map_name(ANN.ref) + component(VERSION, b"\0\1"), element(NAME, HERE))),
        ("format", of_parts(from_uri("/ssb/map/short") + V1, element(NAME, HERE))),
        ("format", of_parts(map_name(ANN.ref) + V1, b"")),
        ("format", of_parts(map_name(ANN.ref) + V1, element(NAME, b""))),
        ("format", of_parts(map_name(ANN.ref) + V1, element(NAME, b"\x08\x05a"))),
        ("format", of_parts(map_name(ANN.ref) + V1, element(NAME, HERE) * 5)),
        ("format", of_parts(map_name(ANN.ref) + V1, element(NAME, HERE), content_type=0)),
        ("format", of_parts(map_name(ANN.ref) + V1, element(NAME, HERE), signature_type=0)),
        ("format", of_parts(map_name(ANN.ref) + V1, element(NAME, HERE), more_info=b"")),
        ("format", of_parts(map_name(ANN.ref) + V1, element(NAME, HERE + component(8, bytes(1000))))),
    ],
)
def test_what_is_no_record_that_counts_is_refused(reason: str, data: Data) -> None:
    with pytest.raises(RefusedRecord) as refused:
        open_record(data, NOW + S)
    assert refused.value.reason == reason


def test_every_bit_of_a_record_counts() -> None:
    wire = record()
    for at in range(len(wire)):
        changed = wire[:at] + bytes([wire[at] ^ 1]) + wire[at + 1 :]
        with pytest.raises(RefusedRecord):
            read_record(changed, NOW + S)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_refused(wire: bytes) -> None:
    with pytest.raises(RefusedRecord):
        read_record(wire, NOW)


@given(st.integers(0, 253_402_300_799), st.integers(0, 253_402_300_799))
def test_a_validity_period_is_read_as_it_was_written(begin: int, end: int) -> None:
    assert validity_of(validity_period(begin * S, end * S)) == (begin * S, end * S + S - 1)


def test_a_validity_period_has_a_year_of_four_digits() -> None:
    for time in (-1, 253_402_300_800 * S):
        with pytest.raises(ValueError, match="1970 to 9999"):
            validity_period(time, time)


@given(st.lists(st.tuples(st.sampled_from([ANN, BEN]), st.integers(1, 5), st.integers(0, 30))))
def test_a_ledger_has_the_newest_record_of_each_id(told: list[tuple[Identity, int, int]]) -> None:
    """Against the obvious model: of each id the record with the highest sequence."""
    ledger, model = Ledger(10), dict[str, int]()
    refused = 0
    for who, seq, later in told:
        wire = record(seq, of=who, now=NOW - 10 * S)
        taken = ledger.add(parse_data(wire), who.ref, NOW + later * S)
        if seq >= model.get(who.ref, 0):
            model[who.ref] = seq
            assert taken is not None
        else:
            refused += 1
            assert taken is None
    assert ledger.refused["older"] == ledger.refused.total() == refused
    for who in (ANN, BEN):
        newest = ledger.newest(who.ref)
        assert (0 if newest is None else newest.seq) == model.get(who.ref, 0)
        assert ledger.get(who.ref, NOW + 100 * S) is None
    ledger.drop_expired(NOW + 100 * S)
    assert len(ledger) == ledger.size == 0


def test_an_expired_record_still_keeps_older_ones_out() -> None:
    ledger = Ledger(10)
    assert ledger.add(parse_data(record(2, now=NOW)), ANN.ref, NOW)
    assert not ledger.add(parse_data(record(1, now=NOW + 80 * S)), ANN.ref, NOW + 81 * S)
    assert ledger.refused == {"older": 1}


# Servers


def answer(server: NameServer, packet: bytes, now: int = NOW) -> Data:
    server.receive(packet, now)
    (wire,) = server.take_outputs()
    return parse_data(wire)


def tell(server: NameServer, wire: bytes, author: str = ANN.ref, now: int = NOW) -> bytes:
    return answer(server, make_update(author, wire, SERVER, 1), now).content


def ask(server: NameServer, author: str = ANN.ref, now: int = NOW) -> Data:
    return answer(server, make_query(author, SERVER, 2), now)


def test_a_server_answers_with_what_it_was_told() -> None:
    server = NameServer()
    assert ask(server).content_type == 3  # NACK
    assert tell(server, record(1)) == record(1)
    assert tell(server, record(2, THERE)) == record(2, THERE)
    assert ask(server).wire == record(2, THERE)
    assert ask(server, now=NOW + 70 * S).content_type == 3
    assert server.counters == {"queries": 3, "unknown": 2, "updates": 2}


def test_a_server_refuses_what_the_id_has_not_signed() -> None:
    server = NameServer()
    tell(server, record(5))
    assert tell(server, record(6, THERE, by=BEN)) == record(5)  # forged
    assert tell(server, record(9, THERE, of=BEN)) == record(5)  # a hijack: BEN's own record as ANN's
    assert tell(server, record(4, THERE)) == record(5)  # a replay
    assert tell(server, record(6, THERE, now=NOW - 99 * S)) == record(5)
    assert server.ledger.refused == {"forged": 2, "older": 1, "expired": 1}
    assert ask(server).wire == record(5)


def test_a_server_answers_to_nonsense_with_nothing() -> None:
    server = NameServer()
    assert tell(server, b"nonsense") == b""
    assert server.ledger.refused == {"format": 1}


def test_a_server_can_be_asked_past_caches() -> None:
    server = NameServer()
    first, second = (make_direct_query(ANN.ref, SERVER, nonce) for nonce in (1, 2))
    assert parse_interest(first).name != parse_interest(second).name
    assert answer(server, first).content == b""
    tell(server, record(1))
    assert answer(server, second).content == record(1)


def test_a_server_is_full_at_its_capacity() -> None:
    server = NameServer(capacity=1)
    tell(server, record(1))
    assert tell(server, record(1, of=BEN), BEN.ref) == b""
    assert tell(server, record(2, THERE)) == record(2, THERE)
    assert server.ledger.refused == {"full": 1}


def test_a_server_forgets_what_has_expired() -> None:
    server = NameServer()
    tell(server, record(1))
    now = NOW
    while (due := server.next_deadline()) is not None:
        assert due > now
        now = due
        server.wake(now)
    assert len(server.ledger) == 0
    assert now < NOW + 80 * S


def test_ids_are_spread_over_servers() -> None:
    servers = [server_name(k) for k in range(4)]
    counts = dict.fromkeys(servers, 0)
    for n in range(400):
        counts[server_of(Identity.from_seed(Random(n).randbytes(32)).ref, servers)] += 1
    assert min(counts.values()) > 60


# Resolvers


def sent(resolver: Resolver) -> list[str]:
    packets = [parse_interest(packet) for packet in resolver.take_outputs()]
    assert all(packet.forwarding_hint == (SERVER,) and packet.must_be_fresh for packet in packets)
    return [packet.name.hex() for packet in packets]


def resolver(of: Identity = ANN, now: int = NOW) -> Resolver:
    made = Resolver([SERVER], rng=Random(1))
    made.want(of.ref, now)
    assert sent(made) == [map_name(of.ref).hex()]
    return made


def test_a_resolver_asks_again_when_a_record_is_old() -> None:
    made = resolver()
    assert made.place(ANN.ref) == ()
    assert made.receive(record(1), NOW)
    assert made.place(ANN.ref) == (HERE,)
    assert made.next_deadline() == NOW + 2 * S
    made.wake(NOW + 2 * S)
    assert len(sent(made)) == 1
    assert made.receive(record(2, THERE), NOW + 2 * S)
    assert [each.storages for each in made.take_changed()] == [(HERE,), (THERE,)]
    assert made.counters == {"queries": 2, "answers": 2}
    made.forget(ANN.ref)
    assert (made.next_deadline(), len(made), made.waiting) == (None, 0, 0)


@pytest.mark.parametrize(
    ("reason", "wire"),
    [
        ("forged", record(9, THERE, by=BEN)),
        ("older", record(4, THERE)),
        ("expired", record(9, THERE, now=NOW - 99 * S)),
        ("format", make_data(map_name(ANN.ref) + V1, b"?")),
    ],
)
def test_a_resolver_keeps_what_it_knows(reason: str, wire: bytes) -> None:
    made = resolver()
    made.receive(record(5), NOW)
    made.wake(NOW + 2 * S)
    sent(made)
    made.receive(wire, NOW + 2 * S)
    assert made.place(ANN.ref) == (HERE,)
    assert made.refused == {reason: 1}
    assert NOW + 2 * S < (made.next_deadline() or 0) < NOW + 3 * S


def test_a_resolver_takes_no_answer_that_it_has_not_asked_for() -> None:
    made = resolver()
    made.receive(record(1), NOW)
    made.receive(record(2, THERE), NOW)  # nobody has asked
    made.receive(record(2, THERE, of=BEN), NOW)
    assert (made.place(ANN.ref), made.place(BEN.ref)) == ((HERE,), ())


def test_a_resolver_asks_the_server_itself_when_caches_hold_no_record() -> None:
    made = resolver()
    made.receive(record(9, THERE, by=BEN), NOW)
    now = made.next_deadline() or 0
    made.wake(now)
    (packet,) = made.take_outputs()
    asked = parse_interest(packet)
    assert asked.name.startswith(map_name(ANN.ref) + component(32, b"ask"))
    made.receive(make_data(asked.name, record(1)), now)
    assert made.place(ANN.ref) == (HERE,)
    for _ in range(20):
        now = made.next_deadline() or 0
        made.wake(now)
        (packet,) = made.take_outputs()
        asked = parse_interest(packet)
        is_direct = asked.name != map_name(ANN.ref)
        made.receive(make_data(asked.name, record(1)) if is_direct else record(1), now)
    assert not is_direct  # caches are trusted again


def test_a_resolver_repeats_what_is_not_answered() -> None:
    made, now, asked = resolver(), NOW, 0
    while now < NOW + 60 * S:
        now = made.next_deadline() or 0
        made.wake(now)
        asked += len(sent(made))
    assert 10 < asked < 30
    made.receive(make_data(map_name(ANN.ref), b"", content_type=3), now)
    assert made.counters["denials"] == 1


def test_a_resolver_is_told_that_a_place_does_not_answer() -> None:
    made = resolver()
    made.receive(record(1), NOW)
    made.query_again(ANN.ref, NOW + 10 * MS)
    assert NOW < (made.next_deadline() or 0) < NOW + 200 * MS


# Storages

FEED = tuple(generate_feed(Random(3), 12))
AUTHOR = FEED[0].author


def put(storage: Storage, packet: bytes, author: str = AUTHOR) -> int | None:
    storage.receive(make_put(author, packet, HERE, 1), NOW)
    answers = [parse_data(wire) for wire in storage.take_outputs()]
    return read_tip(answers[-1]) if answers else None


def test_a_storage_keeps_logs_whole() -> None:
    storage = Storage()
    assert put(storage, b"") == 0
    assert [put(storage, message_packet(FEED[n])) for n in (0, 2, 1, 1, 3)] == [1, 1, 3, 3, 4]
    assert (storage.messages, storage.tip(AUTHOR)) == (4, 4)
    assert storage.size == sum(len(message.encoded) for message in FEED[:4])
    assert not storage.refused


def test_a_storage_refuses_what_the_author_has_not_written() -> None:
    storage = Storage()
    put(storage, message_packet(FEED[0]))
    forged = message_packet(FEED[1]).replace(b"timestamp", b"timestamq")
    other = message_packet(generate_feed(Random(4), 1)[0])
    assert put(storage, forged) is None
    assert put(storage, other) == 1
    assert put(storage, b"nonsense") == 1
    assert put(storage, message_packet(FEED[0]), ANN.ref) == 0
    assert storage.refused == {"forged": 1, "format": 3}
    assert storage.messages == 1


def test_a_storage_is_full_at_its_capacity() -> None:
    storage = Storage(capacity=1)
    put(storage, message_packet(FEED[0]))
    other = generate_feed(Random(4), 1)[0]
    assert put(storage, message_packet(other), other.author) == 0
    assert storage.refused == {"full": 1}


def test_malformed_names_are_no_uploads() -> None:
    with pytest.raises(MalformedPacket):
        parse_interest(b"\x05\x01\x07")
    storage, server = Storage(), NameServer()
    for packet in (b"", b"\x05\x01\x07", record(1), make_query(ANN.ref, SERVER, 1)[:-1]):
        storage.receive(packet, NOW)
        server.receive(packet, NOW)
    assert storage.take_outputs() == server.take_outputs() == []
