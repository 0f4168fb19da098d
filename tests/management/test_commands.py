"""Each command: bytes that go in, bytes that come out, and what has changed since."""

from random import Random

import pytest
from memory_faces import START, MemoryFaces, Node
from signing import announcement, digest, named, number, old_command, parameters, signed_command

from base.units import MS
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.management.authorisation import Authorisation
from forwarder.management.manager import Management
from forwarder.management.parameters import ControlParameters, parse_parameters
from forwarder.tables.face import FIRST_FACE, INTERNAL_FACE, Persistency
from forwarder.tables.fib import NextHop
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import make_data, make_interest, parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket, element, nni, read_header, read_nni

FACE_ID, COST, FLAGS, PERIOD, ORIGIN, MASK, URI = 0x69, 0x6A, 0x6C, 0x6D, 0x6F, 0x70, 0x72
APPLICATION = FIRST_FACE


def read(content: bytes) -> tuple[int, str, ControlParameters]:
    """The (code, text, body) of a ControlResponse, of which nothing is left over."""
    assert content[0] == 0x65
    _, at, end = read_header(content, 0, len(content))
    assert end == len(content)
    kind, start, at = read_header(content, at, end)
    assert kind == 0x66
    code = read_nni(content[start:at])
    kind, start, at = read_header(content, at, end)
    assert kind == 0x67
    return code, content[start:at].decode(), parse_parameters(content[at:end])


def ask(
    node: Node, verb: str, *fields: tuple[int, bytes], now: int = START
) -> tuple[int, str, ControlParameters]:
    return read(node.reply(signed_command(verb, parameters(*fields)), now).content)


# Vectors, computed by hand from NDN packet format 0.3 and the ControlCommand page.

REGISTER_A = bytes.fromhex("6805" + "07030801" + "61")
"""ControlParameters { Name /a }"""

REGISTERED_A = bytes.fromhex(
    "651b"  # ControlResponse
    "6601c8"  # StatusCode 200
    "67024f4b"  # StatusText OK
    "6812"  # ControlParameters
    "0703080161"  # Name /a
    "69020100"  # FaceId 256
    "6f0100"  # Origin 0
    "6a0100"  # Cost 0
    "6c0101"  # Flags 1
)
UNREGISTERED_A = bytes.fromhex("6515" + "6601c8" + "67024f4b" + "680c" + "0703080161" + "69020100" + "6f0100")


@pytest.mark.parametrize("make", [signed_command, old_command])
def test_register_and_unregister_byte_by_byte(make: object) -> None:
    node = Node()
    interest = make("rib/register", REGISTER_A)  # type: ignore[operator]
    reply = node.reply(interest)
    assert reply.name == parse_interest(interest).name
    assert reply.content == REGISTERED_A
    assert reply.freshness_ms == 1000
    assert (reply.signature_type, reply.signature) == (0, digest(reply.signed))
    reply = node.reply(make("rib/unregister", REGISTER_A))  # type: ignore[operator]
    assert reply.content == UNREGISTERED_A
    assert node.forwarder.fib.lookup(from_uri("/a")) == ()


def test_a_command_in_full() -> None:
    """One whole Interest in the older form, to tell this file's own maker from the specification."""
    signed = bytes.fromhex(
        "08096c6f63616c686f7374"  # localhost
        "08036e6664"  # nfd
        "0803726962"  # rib
        "08087265676973746572"  # register
        "08076805" + "0703080161"  # ControlParameters
        "08080000018bcfe56800"  # 1700000000000 ms
        "08080000000000000000"  # nonce
        "0805" + "16031b0100"  # SignatureInfo { DigestSha256 }
    )
    name = signed + bytes.fromhex("08221720") + digest(signed)
    wire = element(5, element(7, name) + bytes.fromhex("0a0400000001" + "0c0203e8"))
    assert wire == old_command("rib/register", REGISTER_A)


def test_register_takes_what_it_is_given() -> None:
    node = Node()
    other = node.faces.add("fd://10").number
    fields = (named("/a"), number(FACE_ID, other), number(ORIGIN, 255), number(COST, 300), number(FLAGS, 2))
    code, _, body = ask(node, "rib/register", *fields, number(PERIOD, 1000))
    assert code == 200
    assert body == ControlParameters(
        name=from_uri("/a"), face=other, origin=255, cost=300, flags=2, expiration=1000
    )
    assert node.management.next_deadline() == START + 1000 * MS


def test_face_0_means_the_one_that_the_command_came_from() -> None:
    node = Node()
    assert ask(node, "rib/register", named("/a"), number(FACE_ID, 0))[2].face == APPLICATION


def test_an_end_beyond_all_times_is_none() -> None:
    node = Node()
    code, _, body = ask(node, "rib/register", named("/a"), number(PERIOD, (1 << 64) - 1))
    assert (code, body.expiration) == (200, (1 << 64) - 1)
    assert node.management.next_deadline() is None


ERRORS = [
    ("rib/register", (), 400),
    ("rib/register", (named("/a"), number(MASK, 1)), 400),
    ("rib/register", (named("/a"), number(FACE_ID, 999)), 410),
    ("rib/register", (named("/a" * 33),), 414),
    ("rib/unregister", (), 400),
    ("rib/unregister", (named("/a"), number(COST, 1)), 400),
    ("rib/unregister", (named("/a" * 33),), 414),
    ("fib/add-nexthop", (), 400),
    ("fib/add-nexthop", (named("/a"), number(FACE_ID, 999)), 410),
    ("fib/add-nexthop", (named("/a" * 33),), 414),
    ("fib/remove-nexthop", (named("/a"), number(COST, 1)), 400),
    ("faces/create", (), 400),
    ("faces/create", ((URI, b"ether://x"),), 406),
    ("faces/create", ((URI, b"udp4://192.0.2.2"),), 400),
    ("faces/create", ((URI, b"udp4://192.0.2.2:6363"), number(0x85, 3)), 400),
    ("faces/create", ((URI, b"udp4://192.0.2.2:6363"), number(FLAGS, 1)), 400),
    ("faces/update", (number(FACE_ID, 999),), 404),
    ("faces/update", ((URI, b"udp4://192.0.2.2:6363"),), 400),
    ("faces/destroy", (), 400),
    ("faces/destroy", (number(FACE_ID, 0),), 400),
    ("faces/destroy", (number(FACE_ID, 1),), 403),
    ("cs/config", (number(0x83, 1), named("/a")), 400),
    ("cs/config", (number(FLAGS, 1),), 400),
    ("cs/erase", (), 400),
    ("cs/erase", (named("/a"), number(0x84, 0)), 400),
    ("strategy-choice/set", (named("/a"),), 400),
    ("strategy-choice/set", (named("/a"), (0x6B, element(7, from_uri("/no/such")))), 404),
    ("strategy-choice/unset", ((7, b""),), 400),
    ("strategy-choice/unset", (named("/a" * 33),), 414),
    ("rib/no-such-verb", (named("/a"),), 501),
    ("no-such-module/list", (named("/a"),), 501),
    ("rib/announce", (), 400),
]


@pytest.mark.parametrize(("verb", "fields", "code"), ERRORS)
def test_what_cannot_be_done_is_said_and_nothing_changes(
    verb: str, fields: tuple[tuple[int, bytes], ...], code: int
) -> None:
    node = Node()
    before = state(node)
    found, text, body = ask(node, verb, *fields)
    assert found == code
    assert text
    assert body == ControlParameters()
    assert state(node) == before
    assert node.management.counters == {"refused": 1}


def state(node: Node) -> object:
    """Everything that a command can change."""
    forwarder = node.forwarder
    return (
        dict(forwarder.fib.items()),
        [(prefix, [str(route) for route in routes]) for prefix, routes in node.management.rib.items()],
        {number: (face.uri, face.mtu, face.local_fields) for number, face in forwarder.faces.items()},
        [(prefix, id(strategy)) for prefix, strategy in forwarder.strategies.items()],
        forwarder.cs.capacity,
    )


def test_parameters_that_are_none_are_said_to_be_malformed() -> None:
    for wire in (b"\x68\x02\x07\x05", b"\x69\x00", b"\x68\x04\x69\x02\x01", b"\x68\x03\x6a\x01"):
        node = Node()
        code, text, _ = read(node.reply(signed_command("rib/register", wire)).content)
        assert (code, text.partition(":")[0]) == (400, "malformed ControlParameters")


def test_fields_in_any_order_and_what_is_unknown() -> None:
    flags_first = bytes.fromhex("680c" + "6c0101" + "87020400" + "07030801" + "61")
    assert parse_parameters(flags_first) == ControlParameters(
        name=from_uri("/a"), flags=1, marking_interval=1024
    )
    assert parse_parameters(bytes.fromhex("6802" + "f000")) == ControlParameters()  # even: may be ignored
    with pytest.raises(MalformedPacket):
        parse_parameters(bytes.fromhex("6802" + "f100"))
    with pytest.raises(MalformedPacket, match="twice"):
        parse_parameters(bytes.fromhex("6806" + "690101" + "690101"))


# The FIB.


def test_next_hops_by_hand() -> None:
    node = Node()
    assert ask(node, "fib/add-nexthop", named("/a"), number(COST, 5)) == (
        200,
        "OK",
        ControlParameters(name=from_uri("/a"), face=APPLICATION, cost=5),
    )
    assert node.forwarder.fib.lookup(from_uri("/a")) == (NextHop(APPLICATION, 5),)
    body = ControlParameters(name=from_uri("/a"), face=APPLICATION)
    assert ask(node, "fib/remove-nexthop", named("/a")) == (200, "OK", body)
    assert ask(node, "fib/remove-nexthop", named("/a")) == (200, "OK", body)
    assert node.forwarder.fib.lookup(from_uri("/a")) == ()


# Faces.

UDP = (URI, b"udp4://192.0.2.7:6363")


def test_create_update_and_destroy_a_face() -> None:
    node = Node()
    code, _, body = ask(node, "faces/create", UDP, number(0x85, 2))
    created = FIRST_FACE + 1
    assert code == 200
    assert body == ControlParameters(
        face=created,
        uri="udp4://192.0.2.7:6363",
        local_uri="udp4://192.0.2.1:6363",
        persistency=Persistency.PERMANENT,
        marking_interval=100_000_000,
        marking_threshold=65_536,
        mtu=8800,
        flags=0,
    )
    code, _, again = ask(node, "faces/create", UDP)
    assert (code, again) == (409, body)

    code, _, body = ask(node, "faces/update", number(FACE_ID, created), number(0x89, 1400))
    assert (code, body.face, body.mtu, body.uri) == (200, created, 1400, None)
    ask(node, "rib/register", named("/a"), number(FACE_ID, created))
    code, _, body = ask(node, "faces/destroy", number(FACE_ID, created))
    assert (code, body) == (200, ControlParameters(face=created))
    assert node.forwarder.fib.lookup(from_uri("/a")) == ()
    assert node.management.rib.find(from_uri("/a"), created, 0) is None
    assert ask(node, "faces/destroy", number(FACE_ID, created))[0] == 200


def test_a_face_that_takes_time_is_answered_when_it_stands() -> None:
    node = Node()
    interest = signed_command("faces/create", parameters((URI, b"tcp4://192.0.2.7:6363")))
    assert node.ask(interest) == []
    node.faces.connect()
    (packet,) = node.collect()
    reply = parse_data(packet)
    assert reply.name == parse_interest(interest).name
    assert read(reply.content)[0] == 200


def test_an_application_asks_for_local_fields_on_its_own_face() -> None:
    node = Node()
    code, _, body = ask(node, "faces/update", number(FLAGS, 1), number(MASK, 1))
    assert (code, body.face, body.flags) == (200, APPLICATION, 1)
    assert node.forwarder.faces[APPLICATION].local_fields


def test_an_update_that_cannot_be_says_what_could_not() -> None:
    node = Node()
    ask(node, "faces/create", UDP)
    code, _, body = ask(
        node, "faces/update", number(FACE_ID, FIRST_FACE + 1), number(FLAGS, 1), number(MASK, 1)
    )
    assert (code, body) == (409, ControlParameters(flags=1))


# The content store.


def test_configuring_the_content_store() -> None:
    node = Node()
    node.forwarder.cs.capacity = 100
    assert ask(node, "cs/config")[2] == ControlParameters(capacity=100, flags=3)
    code, _, body = ask(node, "cs/config", number(0x83, 7), number(FLAGS, 0), number(MASK, 2))
    assert (code, body) == (200, ControlParameters(capacity=7, flags=1))
    assert (node.forwarder.cs.admits, node.forwarder.cs.serves) == (True, False)


@pytest.mark.parametrize(
    ("held", "count", "erased", "is_cut"),
    [
        (3, None, 3, False),
        (3, 2, 2, False),
        (300, None, 256, True),
        (256, None, 256, False),
        (300, 256, 256, False),
        (0, None, 0, False),
    ],
)
def test_erasing(held: int, count: int | None, erased: int, is_cut: bool) -> None:
    node = Node()
    for each in range(held):
        wire = make_data(from_uri(f"/a/{each}"), b"")
        node.forwarder.cs.insert(parse_data(wire), START)
    counted = () if count is None else (number(0x84, count),)
    code, _, body = ask(node, "cs/erase", named("/a"), *counted)
    assert (code, body.name, body.count) == (200, from_uri("/a"), erased)
    assert body.capacity == (256 if is_cut else None)


# Strategies.


def strategy(uri: str) -> tuple[int, bytes]:
    return 0x6B, element(7, from_uri(uri))


def test_choosing_a_strategy() -> None:
    node = Node()
    full = from_uri("/localhost/nfd/strategy/multicast/v=5")
    code, _, body = ask(
        node, "strategy-choice/set", named("/a"), strategy("/localhost/nfd/strategy/multicast")
    )
    assert (code, body) == (200, ControlParameters(name=from_uri("/a"), strategy=full))
    older = strategy("/localhost/nfd/strategy/multicast/v=4")
    code, text, _ = ask(node, "strategy-choice/set", named("/b"), older)
    assert (code, text) == (409, "multicast is of version 5, not 4")
    assert (
        ask(node, "strategy-choice/set", named("/b"), strategy("/localhost/nfd/strategy/multicast/v=6"))[0]
        == 404
    )
    wrong = strategy("/localhost/nfd/strategy/multicast/v=5/no~such")
    assert ask(node, "strategy-choice/set", named("/b"), wrong)[0] == 409
    chosen = dict(node.forwarder.strategies.items())[from_uri("/a")]
    assert chosen.NAME == "multicast"
    ask(node, "strategy-choice/set", named("/a"), (0x6B, element(7, full)))
    assert dict(node.forwarder.strategies.items())[from_uri("/a")] is chosen  # with what it has learnt
    assert ask(node, "strategy-choice/unset", named("/a"))[2] == ControlParameters(name=from_uri("/a"))
    assert from_uri("/a") not in dict(node.forwarder.strategies.items())


# Prefix announcements.


def announce(node: Node, wire: bytes, now: int = START) -> tuple[int, str, ControlParameters]:
    return read(node.reply(signed_command("rib/announce", b"", payload=wire), now).content)


def test_an_announcement_makes_a_route_for_its_period() -> None:
    node = Node()
    code, _, body = announce(node, announcement("/site", period=60_000))
    assert code == 200
    assert body == ControlParameters(
        name=from_uri("/site"), face=APPLICATION, origin=129, cost=2048, flags=1, expiration=60_000
    )
    assert node.forwarder.fib.lookup(from_uri("/site/x")) == (NextHop(APPLICATION, 2048),)
    node.management.wake(START + 60_000 * MS)
    assert node.forwarder.fib.lookup(from_uri("/site/x")) == ()


def test_an_announcement_signed_in_the_older_form() -> None:
    payload = element(36, announcement("/site"))
    name = from_uri("/localhost/nfd/rib/announce") + element(2, digest(payload))
    name += (
        element(8, (START // MS).to_bytes(8, "big"))
        + element(8, bytes(8))
        + element(8, b"\x16\x03\x1b\x01\0")
    )
    name += element(8, element(23, digest(name)))
    interest = element(5, element(7, name) + bytes.fromhex("0a0400000001") + payload)
    assert read(Node().reply(interest).content)[0] == 200


def period(begin: bytes, end: bytes) -> bytes:
    return element(253, element(254, begin) + element(255, end))


def test_the_shorter_of_the_two_periods_counts() -> None:
    node = Node()  # START is 2023-11-14 22:13:20
    wire = announcement("/site", validity=period(b"20231114T000000", b"20231114T221329"))
    assert announce(node, wire)[2].expiration == 9999
    for gone in (
        period(b"20231114T000000", b"20231114T221319"),
        period(b"20231114T221321", b"20241114T000000"),
    ):
        assert announce(Node(), announcement("/site", validity=gone))[0] == 403


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        b"\x24\x00",
        make_data(from_uri("/site/32=PA/v=1/seg=0"), element(0x6D, nni(1)), content_type=0),
        make_data(from_uri("/site/32=PA/v=1/seg=1"), element(0x6D, nni(1)), content_type=5),
        make_data(from_uri("/site/PA/v=1/seg=0"), element(0x6D, nni(1)), content_type=5),
        make_data(from_uri("/site/32=PA/seg=0/seg=0"), element(0x6D, nni(1)), content_type=5),
        make_data(from_uri("/site/32=PA/v=1/seg=0"), b"", content_type=5),
        make_data(from_uri("/site/32=PA/v=1/seg=0"), element(0x6D, b"\0\0\0"), content_type=5),
        make_data(from_uri("/site/32=PA/v=1/seg=0"), element(0x6D, nni(1)) + element(0x1F), content_type=5),
        announcement("/site", validity=period(b"20231314T000000", b"20241114T000000")),
    ],
)
def test_what_is_no_announcement(wire: bytes) -> None:
    assert announce(Node(), wire)[0] == 400


def test_what_a_strategy_learns_lasts_ten_minutes_at_most() -> None:
    node = Node()
    node.forwarder.announce(APPLICATION, announcement("/site", period=3_600_000), START)
    (route,) = node.management.rib.routes_of(from_uri("/site"))
    assert (route.face, route.origin, route.deadline) == (APPLICATION, 129, START + 600_000 * MS)
    node.forwarder.announce(APPLICATION, b"\x06\x00", START)
    node.forwarder.announce(999, announcement("/site"), START)
    spoilt = bytearray(announcement("/other"))
    spoilt[-1] ^= 1
    node.forwarder.announce(APPLICATION, bytes(spoilt), START)
    assert node.management.counters == {"learnt": 1, "unlearnt": 3}


def test_a_host_wakes_the_management_when_a_learnt_route_ends() -> None:
    """A strategy calls it, while the host asks no application."""
    host = Host(Forwarder(rng=Random(1)))
    forwarder, link = host.forwarder, host.add_link()
    rules = Authorisation()
    faces = MemoryFaces(forwarder)
    host.attach(
        Management(forwarder, faces, authorisation=rules, started=START, stir=host.stir), INTERNAL_FACE
    )
    host.wake(START)
    host.take_outputs()
    assert host.next_deadline() is None
    forwarder.announce(link, announcement("/site", period=60_000), START)
    assert host.next_deadline() == START + 60_000 * MS
    host.wake(START + 60_000 * MS)
    assert forwarder.fib.lookup(from_uri("/site/x")) == ()


def test_a_strategy_is_told_what_an_application_has_announced() -> None:
    node = Node()
    wire = announcement("/site")
    announce(node, wire)
    assert node.forwarder.find_announcement(from_uri("/site/x/y"), START) == wire
    assert node.forwarder.find_announcement(from_uri("/other"), START) is None
    assert node.forwarder.find_announcement(from_uri("/localhost/nfd/rib"), START) is None
    ask(node, "rib/register", named("/app"), number(PERIOD, 30_000))
    made = node.forwarder.find_announcement(from_uri("/app/1"), START)
    assert made is not None
    data = parse_data(made)
    assert to_uri(data.name) == f"/app/32=PA/v={START // MS}/seg=0"
    assert (data.content_type, data.content) == (5, element(0x6D, nni(30_000)))


def test_what_a_neighbour_has_announced_is_passed_on_until_it_leads_nowhere() -> None:
    node = Node()
    one, two = (node.faces.add(f"udp4://192.0.2.{n}:6363", local=False).number for n in (8, 9))
    wire = announcement("/site", period=60_000)
    for face in (one, two):
        node.forwarder.announce(face, wire, START)
    assert node.forwarder.find_announcement(from_uri("/site/x"), START) == wire
    node.forwarder.withdraw(one, from_uri("/site/x"), START)
    assert [hop.face for hop in node.forwarder.fib.lookup(from_uri("/site/x"))] == [two]
    node.forwarder.withdraw(two, from_uri("/elsewhere"), START)
    ask(node, "rib/register", named("/site"), number(FACE_ID, two))
    node.forwarder.withdraw(two, from_uri("/site/x"), START)
    (left,) = node.management.rib.routes_of(from_uri("/site"))
    assert (left.face, left.origin) == (two, 0)  # what was registered stays
    assert node.forwarder.find_announcement(from_uri("/site/x"), START) is None


def test_a_neighbours_route_is_no_announcement_of_ours() -> None:
    node = Node()
    remote = node.faces.add("udp4://192.0.2.9:6363", local=False).number
    ask(node, "rib/register", named("/far"), number(FACE_ID, remote))
    assert node.forwarder.find_announcement(from_uri("/far/1"), START) is None


def test_what_is_no_request_is_dropped_and_counted() -> None:
    node = Node()
    packets = [
        make_interest(from_uri("/localhost/nfd"), nonce=1),
        make_interest(from_uri("/localhost/nfd/rib/no-such"), nonce=1),
        make_interest(from_uri("/other/nfd/rib/list"), nonce=1),
        make_interest(from_uri("/localhop/nfd/rib/list"), nonce=1),
        make_data(from_uri("/localhost/nfd/rib/list"), b""),
        b"",
        b"\x05",
    ]
    for packet in packets:
        node.management.receive(packet, START)
    assert node.collect() == []
    assert node.management.counters == {"dropped": len(packets)}


def test_a_route_to_nowhere() -> None:
    """By face 255, as in NFD: what goes there is not answered, and not refused."""
    node = Node()
    assert ask(node, "rib/register", named("/a"), (0x69, nni(255)))[0] == 200
    interest = make_interest(from_uri("/a/b"), nonce=1)
    assert node.forward(interest) == [(255, interest)]
    assert [ask(node, "faces/destroy", (0x69, nni(face)))[0] for face in (1, 254, 255)] == [403] * 3
