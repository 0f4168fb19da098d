"""Who may do what: keys, certificates, rules, replays."""

import base64
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_faces import START, Node
from signing import (
    Key,
    announcement,
    digest,
    ecdsa_key,
    ed25519_key,
    named,
    number,
    old_command,
    parameters,
    rsa_key,
    signed_command,
)

from base.units import MS, SECOND
from forwarder.management.authorisation import Authorisation
from forwarder.management.keys import load_certificate, parse_certificate
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest, parse_data
from forwarder.wire.tlv import element, elements, nni, read_header, read_nni

ALICE, BOB, CAROL = ecdsa_key(), rsa_key(), ed25519_key()
REGISTER = parameters(named("/a"))
NOW = START // MS


def rules(tmp_path: Path, text: str) -> Authorisation:
    for name, key in (("alice", ALICE), ("bob", BOB), ("carol", CAROL)):
        (tmp_path / f"{name}.ndncert").write_bytes(base64.encodebytes(key.certificate()))
    path = tmp_path / "authorisation.toml"
    path.write_text(text)
    return Authorisation.load(path)


def code(node: Node, interest: bytes, now: int = START, face: int | None = None) -> int:
    return code_in(node.reply(interest, now, face).content)


def code_in(content: bytes) -> int:
    _, at, end = read_header(content, 0, len(content))
    _, start, stop = read_header(content, at, end)
    return read_nni(content[start:stop])


LOCALHOP = '[[localhop]]\ncertfile = "alice.ndncert"\nprefixes = ["/site"]\n'


def only(key: str) -> str:
    return f'[[authorize]]\ncertfile = "{key}.ndncert"\nprivileges = ["rib"]\n'


# The default: this machine.


@pytest.mark.parametrize("make", [signed_command, old_command])
def test_by_default_anybody_here_may(make: object) -> None:
    for key in (None, ALICE, BOB, CAROL):
        assert code(Node(), make("rib/register", REGISTER, key)) == 200  # type: ignore[operator]
    assert code(Node(), make("rib/register", REGISTER, spoil=True)) == 403  # type: ignore[operator]


def test_a_command_is_signed() -> None:
    name = from_uri("/localhost/nfd/rib/register") + b"\x08" + bytes((len(REGISTER),)) + REGISTER
    assert code(Node(), make_interest(name, nonce=1)) == 403


def test_a_name_has_the_digest_of_its_parameters() -> None:
    interest = bytearray(signed_command("rib/register", REGISTER))
    at = interest.index(b"\x02\x20") + 2
    interest[at] ^= 1
    node = Node()
    assert node.ask(bytes(interest)) == []
    assert node.management.counters == {"dropped": 1}


def test_by_default_nobody_from_outside_may() -> None:
    node = Node()
    assert not Authorisation().is_localhop_enabled
    remote = node.faces.add("udp4://192.0.2.9:6363", local=False).number
    interest = signed_command("rib/register", REGISTER, prefix="/localhop/nfd")
    assert code(node, interest, face=remote) == 403
    # Nor does the forwarder bring it here: there is no route.
    assert [face for face, _ in node.forward(interest, face=remote)] == [remote]
    assert node.forwarder.counters.no_route == 1


# Keys.


@pytest.mark.parametrize(("name", "key"), [("alice", ALICE), ("bob", BOB), ("carol", CAROL)])
@pytest.mark.parametrize("make", [signed_command, old_command])
def test_a_trusted_key_may_and_no_other(tmp_path: Path, name: str, key: Key, make: object) -> None:
    node = Node(rules(tmp_path, only(name)))
    assert code(node, make("rib/register", REGISTER, key)) == 200  # type: ignore[operator]
    for stranger in (None, ALICE, BOB, CAROL):
        if stranger is not key:
            assert code(node, make("rib/register", REGISTER, stranger, time=NOW + 1)) == 403  # type: ignore[operator]
    spoilt = make("rib/register", REGISTER, key, time=NOW + 2, spoil=True)  # type: ignore[operator]
    assert code(node, spoilt) == 403


def test_another_key_under_a_trusted_name_may_not(tmp_path: Path) -> None:
    node = Node(rules(tmp_path, only("alice")))
    for impostor in (ecdsa_key("/alice/KEY/1"), rsa_key("/alice/KEY/1"), ed25519_key("/alice/KEY/1")):
        assert code(node, signed_command("rib/register", REGISTER, impostor)) == 403


def test_the_key_may_be_named_by_its_certificate(tmp_path: Path) -> None:
    node = Node(rules(tmp_path, only("alice")))
    by_certificate = ALICE._replace(name=ALICE.name + from_uri("/self/v=1"))
    assert code(node, signed_command("rib/register", REGISTER, by_certificate)) == 200


def test_privileges(tmp_path: Path) -> None:
    text = '[[authorize]]\ncertfile = "alice.ndncert"\nprivileges = ["faces"]\n'
    text += '[[authorize]]\ncertfile = "any"\nprivileges = ["cs"]\n'
    node = Node(rules(tmp_path, text))
    destroy = parameters(number(0x69, 900))
    assert code(node, signed_command("faces/destroy", destroy, ALICE)) == 200
    assert code(node, signed_command("faces/destroy", destroy)) == 403
    assert code(node, signed_command("rib/register", REGISTER, ALICE, time=NOW + 1)) == 403
    assert code(node, signed_command("cs/erase", parameters(named("/a"), number(0x84, 0)))) == 400


def test_a_certificate_counts_while_it_is_valid(tmp_path: Path) -> None:
    for begin, end, expected in (
        (b"20231114T221320", b"20231114T221320", 200),
        (b"20231114T221321", b"20241114T221320", 403),
        (b"20221114T221320", b"20231114T221319", 403),
    ):
        authorisation = rules(tmp_path, only("alice"))
        (tmp_path / "alice.ndncert").write_bytes(ALICE.certificate(begin, end))
        authorisation = Authorisation.load(tmp_path / "authorisation.toml")
        assert code(Node(authorisation), signed_command("rib/register", REGISTER, ALICE)) == expected


# Replays.


@pytest.mark.parametrize("make", [signed_command, old_command])
def test_a_command_counts_once_and_in_order(tmp_path: Path, make: object) -> None:
    node = Node(rules(tmp_path, only("alice")))
    first, earlier, later = (
        make("rib/register", REGISTER, ALICE, time=NOW + delta)  # type: ignore[operator]
        for delta in (0, -1, 1)
    )
    assert [code(node, each) for each in (first, first, earlier, later, first, later)] == [
        200,
        403,
        403,
        200,
        403,
        403,
    ]


def test_a_command_is_of_now(tmp_path: Path) -> None:
    node = Node(rules(tmp_path, only("alice")))
    command = signed_command("rib/register", REGISTER, ALICE)
    assert code(node, command, START + 121 * SECOND) == 403
    assert code(node, command, START - 121 * SECOND) == 403
    assert code(node, signed_command("rib/register", REGISTER, ALICE, time=None)) == 403
    assert code(node, command, START + 119 * SECOND) == 200


def test_sequence_numbers_grow(tmp_path: Path) -> None:
    node = Node(rules(tmp_path, only("alice")))
    codes = [
        code(node, signed_command("rib/register", REGISTER, ALICE, time=NOW + delta, sequence=sequence))
        for delta, sequence in ((0, 5), (1, 5), (2, 6), (3, None), (4, 6), (5, 7))
    ]
    assert codes == [200, 403, 200, 200, 403, 200]


def test_a_forged_command_does_not_move_the_clock(tmp_path: Path) -> None:
    node = Node(rules(tmp_path, only("alice")))
    assert code(node, signed_command("rib/register", REGISTER, ALICE, time=NOW + 9, spoil=True)) == 403
    assert code(node, signed_command("rib/register", REGISTER, ALICE, time=NOW)) == 200


def test_other_rules_count_at_once_and_what_was_seen_stays_a_replay(tmp_path: Path) -> None:
    """As after a reload of the configuration."""
    node = Node(rules(tmp_path, only("alice")))
    seen = signed_command("rib/register", REGISTER, ALICE, time=NOW)
    assert code(node, seen) == 200
    node.management.reauthorise(rules(tmp_path, only("bob")), START)
    later = signed_command("rib/register", REGISTER, ALICE, time=NOW + 1)
    assert code(node, later) == 403
    assert code(node, signed_command("rib/register", REGISTER, BOB, time=NOW)) == 200
    node.management.reauthorise(rules(tmp_path, only("alice")), START)
    assert code(node, seen) == 403
    assert code(node, later) == 200


def test_other_rules_open_and_close_the_way_for_neighbours(tmp_path: Path) -> None:
    node = Node()
    remote = node.faces.add("udp4://192.0.2.9:6363", local=False).number
    asked = signed_command(
        "rib/register", parameters(named("/site/a")), ALICE, time=NOW, prefix="/localhop/nfd"
    )
    prefix = from_uri("/localhop/nfd/rib")
    assert not node.forwarder.fib.lookup(prefix)
    node.management.reauthorise(rules(tmp_path, LOCALHOP), START)
    ((face, packet),) = node.forward(asked, face=remote)
    assert (face, code_in(parse_data(packet).content)) == (remote, 200)
    node.management.reauthorise(Authorisation(), START)
    assert not node.forwarder.fib.lookup(prefix)


@pytest.mark.parametrize("at", ["before", "between", "after"])
def test_nothing_that_is_not_signed_stands_for_what_is(tmp_path: Path, at: str) -> None:
    """A second InterestSignatureInfo with a later time, put where the signature would not cover it."""
    node = Node(rules(tmp_path, only("alice")))
    command = signed_command("rib/register", REGISTER, ALICE)
    assert code(node, command) == 200
    _, start, _ = read_header(command, 0, len(command))
    fields = [(kind, command[begin:end]) for kind, begin, end in elements(command, start, len(command))]
    info = next(value for kind, value in fields if kind == 44).replace(nni(NOW), nni(NOW + 50))
    places = {"before": 36, "between": 46}
    place = [kind for kind, _ in fields].index(places[at]) if at in places else len(fields)
    fields.insert(place, (44, info))
    tail = b"".join(element(kind, value) for kind, value in fields if kind >= 36)
    for with_digest in (False, True):
        name = fields[0][1]
        if with_digest:
            name = name[:-32] + digest(tail)
        packet = element(7, name) + b"".join(element(kind, value) for kind, value in fields[1:])
        replies = node.ask(element(5, packet), START + 50 * MS)
        assert [code_in(parse_data(reply).content) for reply in replies] in ([], [403])


# From one hop away.


def test_a_neighbour_registers_what_it_may(tmp_path: Path) -> None:
    node = Node(rules(tmp_path, LOCALHOP))
    remote = node.faces.add("udp4://192.0.2.9:6363", local=False).number

    def at(delta: int, verb: str, wire: bytes, key: Key | None = ALICE, payload: bytes = b"") -> int:
        time = NOW + delta
        interest = signed_command(verb, wire, key, time=time, prefix="/localhop/nfd", payload=payload)
        ((face, packet),) = node.forward(interest, face=remote)
        assert face == remote
        return code_in(parse_data(packet).content)

    assert at(0, "rib/register", parameters(named("/site/a"))) == 200
    assert node.forwarder.fib.lookup(from_uri("/site/a"))[0].face == remote
    assert at(10, "rib/register", parameters(named("/sites"))) == 403
    assert at(20, "rib/register", parameters(named("/"))) == 403
    assert at(30, "rib/register", parameters(named("/site"), number(0x69, node.application))) == 403
    assert at(40, "rib/register", parameters(named("/site")), None) == 403
    assert at(50, "rib/register", parameters(named("/site")), BOB) == 403
    assert at(60, "rib/announce", b"", payload=announcement("/site/pa")) == 200
    assert at(70, "rib/announce", b"", payload=announcement("/other")) == 403
    assert at(80, "rib/unregister", parameters(named("/site/a"))) == 200
    # Nor anything but routes, whatever the names.
    erase = parameters(named("/site"))
    interest = signed_command("cs/erase", erase, ALICE, time=NOW + 90, prefix="/localhop/nfd")
    assert code(node, interest, face=remote) == 403


# Announcements.


def test_whose_announcements_count(tmp_path: Path) -> None:
    node = Node(rules(tmp_path, '[[announcement]]\ncertfile = "carol.ndncert"\n'))
    for key, expected in ((CAROL, 200), (ALICE, 403), (None, 403), (ed25519_key("/carol/KEY/1"), 403)):
        payload = announcement("/site", key)
        assert code(node, signed_command("rib/announce", b"", payload=payload)) == expected


# The file.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[authorize]]\ncertfile = 3\nprivileges = []\n", "authorize.0.certfile"),
        ('[[authorize]]\ncertfile = "any"\nprivileges = ["everything"]\n', "authorize.0.privileges.0"),
        ('[[authorise]]\ncertfile = "any"\n', "authorise"),
        ('[[localhop]]\ncertfile = "any"\nprefixes = ["/x/seg=y"]\n', "localhop.0.prefixes"),
        ('[[authorize]]\ncertfile = "no.ndncert"\nprivileges = ["rib"]\n', "no.ndncert"),
        ("authorize = [", "Invalid value"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace(".", r"\.")) as error:
        rules(tmp_path, text)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        Authorisation.load(tmp_path / "none.toml")


def test_a_file_without_rules_is_the_default(tmp_path: Path) -> None:
    node = Node(rules(tmp_path, ""))
    assert code(node, signed_command("rib/register", REGISTER)) == 200


def test_an_empty_list_closes(tmp_path: Path) -> None:
    node = Node(rules(tmp_path, "authorize = []\nannouncement = []\n"))
    assert code(node, signed_command("rib/register", REGISTER)) == 403
    payload = announcement("/site")
    assert code(node, signed_command("rib/announce", b"", payload=payload)) == 403
    node.forwarder.announce(node.application, payload, START)
    assert node.management.counters["unlearnt"] == 1


@pytest.mark.parametrize("content", [b"", b"\x06\x00", b"not base64!", base64.b64encode(b"\x06\x02")])
def test_what_is_no_certificate(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.ndncert"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"certificate|not one|cut short|runs past|without Name"):
        load_certificate(path)


def test_a_certificate_of_a_key_that_is_none() -> None:
    with pytest.raises(ValueError, match="not a public key"):
        parse_certificate(ALICE._replace(public=b"\x30\x03abc").certificate())
    with pytest.raises(ValueError, match="not a certificate"):
        parse_certificate(ALICE._replace(name=from_uri("/alice")).certificate())


@pytest.mark.parametrize("key", [ALICE, BOB, CAROL])
@given(st.binary(max_size=80) | st.binary(min_size=64, max_size=64) | st.binary(min_size=128, max_size=128))
def test_any_bytes_for_a_signature_are_a_wrong_one(key: Key, value: bytes) -> None:
    certificate = parse_certificate(key.certificate())
    assert not certificate.verify(b"signed", value)


@given(st.binary(max_size=60), st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=2)), max_size=3))
def test_any_bytes_for_a_certificate_are_one_or_none(wire: bytes, changes: list[tuple[int, bytes]]) -> None:
    spoilt = CAROL.certificate()
    for at, put in changes:
        spoilt = spoilt[:at] + put + spoilt[at + len(put) :]
    for candidate in (wire, spoilt):
        with suppress(ValueError):
            assert parse_certificate(candidate).verify(b"", b"") is False


def test_the_rules_in_the_document(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "management.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "keys").mkdir()
    for name, key in (("alice", ALICE), ("neighbour", BOB)):
        (tmp_path / "keys" / f"{name}.ndncert").write_bytes(base64.encodebytes(key.certificate()))
    node = Node(rules(tmp_path, block))
    neighbour = node.faces.add("udp4://192.0.2.9:6363", local=False).number
    site = parameters(named("/site/a"))
    assert code(node, signed_command("rib/register", REGISTER, ALICE)) == 200
    assert code(node, signed_command("rib/register", REGISTER, BOB)) == 403
    for wanted, status in ((site, 200), (REGISTER, 403)):
        command = signed_command("rib/register", wanted, BOB, prefix="/localhop/nfd", time=NOW + status)
        assert code(node, command, face=neighbour) == status
