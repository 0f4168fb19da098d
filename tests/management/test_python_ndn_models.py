"""python-ndn as the client: its command signers make the packets, its models read the answers."""

import asyncio
from typing import Any

import pytest
from memory_faces import START, Node
from ndn.app_support import nfd_mgmt
from ndn.encoding import Component, InterestParam, Name, make_interest, parse_data
from ndn.security import DigestSha256Signer, sha256_digest_checker

from base.units import MS
from forwarder.wire.lp import parse_lp
from forwarder.wire.name import from_uri


def old_command(module: str, verb: str, **fields: Any) -> bytes:
    """A command as ndn.app signs it: four components at the end of the name."""
    name = nfd_mgmt.make_command(module, verb, **fields)
    return bytes(make_interest(name, InterestParam(lifetime=1000)))


def new_command(module: str, verb: str, **fields: Any) -> bytes:
    """A command as ndn.appv2 signs it: NDN packet format 0.3."""
    name = nfd_mgmt.make_command_v2(module, verb, **fields)
    param = InterestParam(lifetime=1000, can_be_prefix=True, must_be_fresh=True)
    return bytes(make_interest(name, param, b"", DigestSha256Signer(for_interest=True)))


COMMANDS = pytest.mark.parametrize("command", [old_command, new_command])


def query(name: str) -> bytes:
    return bytes(make_interest(name, InterestParam(can_be_prefix=True, must_be_fresh=True, lifetime=1000)))


def content_of(packet: bytes) -> bytes:
    """The content, after python-ndn has checked the signature as an application does."""
    name, _, content, signature = parse_data(packet)
    assert asyncio.run(sha256_digest_checker(name, signature))
    return bytes(content)


def answer(node: Node, interest: bytes, now: int = START) -> dict[str, Any]:
    """Send a command through the whole node; return python-ndn's reading of the answer."""
    ((face, packet),) = node.forward(interest, now)
    assert face == node.application
    return nfd_mgmt.parse_response(content_of(parse_lp(packet).fragment))


@COMMANDS
def test_an_application_registers_and_unregisters(command: Any) -> None:
    node = Node()
    reply = answer(node, command("rib", "register", name="/a/b"))
    assert reply["status_code"] == 200
    assert Name.to_str(reply["name"]) == "/a/b"
    assert (reply["face_id"], reply["origin"], reply["cost"], reply["flags"]) == (node.application, 0, 0, 1)
    assert reply["expiration_period"] is None
    assert [hop.face for hop in node.forwarder.fib.lookup(from_uri("/a/b/c"))] == [node.application]

    reply = answer(node, command("rib", "unregister", name="/a/b"))
    assert reply["status_code"] == 200
    assert (reply["face_id"], reply["origin"]) == (node.application, 0)
    assert reply["cost"] is None
    assert node.forwarder.fib.lookup(from_uri("/a/b/c")) == ()


def test_the_reply_has_the_identical_name_and_goes_to_no_cache() -> None:
    node = Node()
    interest = new_command("rib", "register", name="/a")
    ((_, packet),) = node.forward(interest)
    name, _, _, _ = parse_data(parse_lp(packet).fragment)
    assert name[-1][0] == 2  # ParametersSha256DigestComponent
    assert len(node.forwarder.cs) == 0


def test_a_route_ends() -> None:
    node = Node()
    reply = answer(node, new_command("rib", "register", name="/a", expiration_period=5000))
    assert reply["expiration_period"] == 5000
    assert node.management.next_deadline() == START + 5000 * MS
    node.management.wake(START + 5000 * MS)
    assert node.forwarder.fib.lookup(from_uri("/a")) == ()


def test_status() -> None:
    node = Node()
    ((_, packet),) = node.forward(query("/localhost/nfd/status/general"), START + 2500 * MS)
    status = nfd_mgmt.GeneralStatus.parse(content_of(parse_lp(packet).fragment))
    assert status.nfd_version.startswith("feednet")
    assert (status.start_timestamp, status.current_timestamp) == (START // MS, START // MS + 2500)
    assert status.n_in_interests == 1
    assert status.n_fib_entries == 1


def test_datasets_are_versioned_and_segmented() -> None:
    node = Node()
    prefixes = [f"/prefix/{'x' * 100}/{number}" for number in range(300)]
    for prefix in prefixes:
        answer(node, new_command("rib", "register", name=prefix))
    ((_, packet),) = node.forward(query("/localhost/nfd/rib/list"))
    name, meta, content, _ = parse_data(parse_lp(packet).fragment)
    assert Component.get_type(name[-2]) == 54
    assert Component.to_number(name[-1]) == 0
    assert meta.freshness_period == 1000
    last = Component.to_number(meta.final_block_id)
    assert last > 1
    assert len(content) == 8000
    whole = bytes(content)
    for number in range(1, last + 1):
        wanted = [*name[:-1], Component.from_segment(number)]
        ((_, packet),) = node.forward(bytes(make_interest(wanted, InterestParam(lifetime=1000))))
        whole += content_of(parse_lp(packet).fragment)
    listed = {Name.to_str(entry.name) for entry in nfd_mgmt.RibStatus.parse(whole).entries}
    assert listed == {*prefixes, "/localhost/nfd"}


def test_fib_and_rib_lists() -> None:
    node = Node()
    answer(node, new_command("rib", "register", name="/a", cost=7, origin=255, flags=3))
    ((_, packet),) = node.forward(query("/localhost/nfd/rib/list"))
    entries = nfd_mgmt.RibStatus.parse(content_of(parse_lp(packet).fragment)).entries
    (route,) = [entry.routes[0] for entry in entries if Name.to_str(entry.name) == "/a"]
    assert (route.face_id, route.origin, route.cost, route.flags.value) == (node.application, 255, 7, 3)
    ((_, packet),) = node.forward(query("/localhost/nfd/fib/list"))
    entries = nfd_mgmt.FibStatus.parse(content_of(parse_lp(packet).fragment)).entries
    (hop,) = [entry.next_hop_records[0] for entry in entries if Name.to_str(entry.name) == "/a"]
    assert (hop.face_id, hop.cost) == (node.application, 7)


def test_faces_as_pynfdc_lists_and_queries_them() -> None:
    node = Node()
    reply = answer(node, new_command("faces", "create", uri="udp4://192.0.2.7:6363"))
    assert (reply["status_code"], reply["uri"]) == (200, "udp4://192.0.2.7:6363")
    assert (reply["face_persistency"], reply["mtu"]) == (nfd_mgmt.FacePersistency.PERSISTENT, 8800)
    created = reply["face_id"]
    assert answer(node, new_command("faces", "create", uri="udp4://192.0.2.7:6363"))["face_id"] == created

    ((_, packet),) = node.forward(query("/localhost/nfd/faces/list"))
    faces = nfd_mgmt.FaceStatusMsg.parse(content_of(parse_lp(packet).fragment)).face_status
    assert [face.face_id for face in faces] == [1, 254, 255, node.application, created]
    _, stored, nowhere, own, made = faces
    for face, uri in ((stored, "contentstore://"), (nowhere, "null://")):
        assert (face.uri, face.local_uri) == (uri, uri)
        assert face.face_scope == nfd_mgmt.FaceScope.LOCAL
        assert face.face_persistency == nfd_mgmt.FacePersistency.PERMANENT
        assert (face.base_congestion_mark_interval, face.flags) == (None, nfd_mgmt.FaceFlags.NO_FLAG)
    assert (own.face_scope, made.face_scope) == (nfd_mgmt.FaceScope.LOCAL, nfd_mgmt.FaceScope.NON_LOCAL)
    assert made.link_type == nfd_mgmt.FaceLinkType.POINT_TO_POINT
    assert (made.base_congestion_mark_interval, made.default_congestion_threshold) == (100_000_000, 65_536)
    assert (own.n_in_interests, own.n_out_data) == (3, 2)
    assert (made.mtu, made.flags) == (8800, nfd_mgmt.FaceFlags.NO_FLAG)
    assert made.expiration_period is None

    wanted = nfd_mgmt.FaceQueryFilter()
    wanted.face_query_filter = nfd_mgmt.FaceQueryFilterValue()
    wanted.face_query_filter.uri = b"udp4://192.0.2.7:6363"
    # pynfdc signs its queries: a digest stands after the filter.
    name = [*Name.from_str("/localhost/nfd/faces/query"), Component.from_bytes(wanted.encode())]
    param = InterestParam(can_be_prefix=True, must_be_fresh=True, lifetime=1000)
    interest = make_interest(name, param, b"", DigestSha256Signer(for_interest=True))
    ((_, packet),) = node.forward(bytes(interest))
    (found,) = nfd_mgmt.FaceStatusMsg.parse(content_of(parse_lp(packet).fragment)).face_status
    assert found.face_id == created


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("face_id", 1, [1]),
        ("uri_scheme", b"udp4", [257]),
        ("uri_scheme", b"unix", [256]),
        ("uri_scheme", b"udp", []),
        ("local_uri", b"udp4://192.0.2.1:6363", [257]),
        ("face_scope", nfd_mgmt.FaceScope.LOCAL, [1, 254, 255, 256]),
        ("face_persistency", nfd_mgmt.FacePersistency.PERMANENT, [1, 254, 255]),
        ("link_type", nfd_mgmt.FaceLinkType.AD_HOC, []),
    ],
)
def test_filters(field: str, value: Any, found: list[int]) -> None:
    node = Node()
    answer(node, new_command("faces", "create", uri="udp4://192.0.2.7:6363"))
    wanted = nfd_mgmt.FaceQueryFilter()
    wanted.face_query_filter = nfd_mgmt.FaceQueryFilterValue()
    setattr(wanted.face_query_filter, field, value)
    name = [*Name.from_str("/localhost/nfd/faces/query"), Component.from_bytes(wanted.encode())]
    ((_, packet),) = node.forward(bytes(make_interest(name, InterestParam(can_be_prefix=True))))
    faces = nfd_mgmt.FaceStatusMsg.parse(content_of(parse_lp(packet).fragment)).face_status
    assert [face.face_id for face in faces] == found


def test_channels_strategies_and_the_content_store() -> None:
    node = Node()
    ((_, packet),) = node.forward(query("/localhost/nfd/faces/channels"))
    uris = ["unix:///run/nfd.sock", "udp4://0.0.0.0:6363"]
    channels = b"".join(bytes((0x82, len(uri) + 2, 0x81, len(uri))) + uri.encode() for uri in uris)
    assert content_of(parse_lp(packet).fragment) == channels

    strategy = "/localhost/nfd/strategy/multicast/v=5"
    reply = answer(node, new_command("strategy-choice", "set", name="/a", strategy=strategy))
    assert Name.to_str(reply["strategy"].name) == strategy
    ((_, packet),) = node.forward(query("/localhost/nfd/strategy-choice/list"))
    listed = nfd_mgmt.StrategyChoiceMsg.parse(content_of(parse_lp(packet).fragment)).strategy_choices
    assert {Name.to_str(each.name): Name.to_str(each.strategy.name) for each in listed} == {
        "/": "/localhost/nfd/strategy/best-route/v=5",
        "/a": strategy,
    }
    assert answer(node, new_command("strategy-choice", "unset", name="/a"))["status_code"] == 200


def test_an_error_has_a_body_that_python_ndn_can_read() -> None:
    node = Node()
    reply = answer(node, new_command("rib", "register", face_id=3))
    assert reply["status_code"] == 400
    assert reply["name"] is None


def test_a_face_event_as_python_ndn_reads_it() -> None:
    node = Node()
    ((_, packet),) = node.forward(query("/localhost/nfd/faces/events"))
    event = nfd_mgmt.FaceEventNotification.parse(content_of(parse_lp(packet).fragment)).event
    assert (event.face_event_kind, event.face_id) == (nfd_mgmt.FaceEventKind.CREATED, node.application)
    assert (event.face_scope, event.flags) == (nfd_mgmt.FaceScope.LOCAL, nfd_mgmt.FaceFlags.NO_FLAG)
