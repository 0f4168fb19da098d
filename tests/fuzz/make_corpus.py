"""Writes the seed corpora: `python tests/fuzz/make_corpus.py`. What was found by fuzzing is kept."""

import hashlib
import io
import json
import runpy
import struct
from itertools import accumulate
from pathlib import Path
from random import Random

from mapping_inputs import for_mapping
from moq_inputs import for_moq
from mqtt_inputs import for_mqtt
from multicast_inputs import for_multicast
from ndn import encoding
from ndn.security import DigestSha256Signer

from captures.formats.pcapng import Direction, Interface, Writer
from captures.layers.frames import udp_frame
from forwarder.daemon.commands import Signer
from forwarder.links.link import LinkService
from forwarder.wire.evidence import Evidence
from forwarder.wire.feed import FORK_PROOF, fork_name, item_name
from forwarder.wire.hello import Hello, Standing, make_hello, reference
from forwarder.wire.lp import DUPLICATE, NO_ROUTE, make_feed_state, make_lp
from forwarder.wire.name import IMPLICIT_DIGEST, component, from_uri
from forwarder.wire.packet import make_data, make_interest
from forwarder.wire.parameters import make_interest_with_parameters
from forwarder.wire.persistent import make_persistent
from forwarder.wire.tlv import element, nni
from ssb.bipf import encode
from ssb.canonical import parse, stringify
from ssb.keys import blob_ref
from ssb.message import Message
from ssb.tiny.isp import messages as tinyisp
from ssb.transport.box_stream import Boxer
from testbed.verify.fuzz import corpus
from testbed.verify.fuzz.subjects import management, ssb, suites, tiny
from testbed.verify.fuzz.subjects.events import PAUSE, Event, encoded
from testbed.verify.fuzz.subjects.node import (
    APPLICATION,
    CACHED,
    CUT,
    NONCE,
    OWN_NAME,
    PENDING,
    RELAYED,
    RELAYED_NAME,
    WAKE,
)
from testbed.verify.push.stories.feeds import items_of
from testbed.verify.push.stories.story import FORGERIES, MISCHIEF
from testbed.verify.push.world.actors import Target, inject

HELLO = Hello(
    *(1, 2, bytes(8), bytes(8)),
    haves=(Standing(reference(OWN_NAME)), Standing(reference(RELAYED_NAME), 2, 9)),
    states=(Standing(reference(RELAYED_NAME), 2, 9, Evidence(2, 3)), Standing(bytes(8), 1, 2)),
)

FOUND = "found"
"""What the name of an input begins with that was found by fuzzing."""


def from_vectors() -> dict[str, bytes]:
    """The packets that the tests of the wire formats spell out."""
    vectors = runpy.run_path(str(Path(__file__).parents[1] / "forwarder" / "test_wire_vectors.py"))
    texts = {name: text for name, text in vectors.items() if name.isupper() and isinstance(text, str)}
    return {f"vector-{name.lower()}": vectors["packet"](text) for name, text in texts.items()}


def from_specification() -> dict[str, bytes]:
    """NDN packet format 0.3: numbers at the edges of their sizes, names with each kind of component."""
    inputs = {f"number-{size}": element(0xF0, bytes(size)) for size in (0, 252, 253, 255, 256)}
    inputs["long-form-of-252"] = bytes.fromhex("f0fd00fc") + bytes(252)
    inputs["name"] = from_uri("/example/testApp/..../%00/32=k/54=%01/seg=0/off=1024/v=7/t=1/seq=99999")
    inputs["name-digests"] = from_uri(f"/a/params-sha256={'01' * 32}/sha256digest={'02' * 32}")
    return inputs


def from_python_ndn() -> dict[str, bytes]:
    """What another implementation makes."""
    signer = DigestSha256Signer(for_interest=True)
    plain = encoding.InterestParam(
        can_be_prefix=True, must_be_fresh=True, nonce=7, lifetime=1000, hop_limit=9
    )
    hinted = encoding.InterestParam(nonce=7, forwarding_hint=["/hint/a", "/hint/b"])
    meta = encoding.MetaInfo(content_type=0, freshness_period=1000, final_block_id=bytes.fromhex("320103"))
    return {
        "python-ndn-interest": bytes(encoding.make_interest("/a/b", plain)),
        "python-ndn-hint": bytes(encoding.make_interest("/a/b", hinted)),
        "python-ndn-parameters": bytes(encoding.make_interest("/a/b", plain, app_param=b"parameters")),
        "python-ndn-signed": bytes(
            encoding.make_interest(
                "/a/b", encoding.InterestParam(nonce=7), app_param=b"x", signer=_Still(signer)
            )
        ),
        "python-ndn-data": bytes(encoding.make_data("/a/b/54=%01", meta, b"content", DigestSha256Signer())),
    }


class _Still:
    """Signs with a time and a nonce that are always the same."""

    def __init__(self, signer: DigestSha256Signer) -> None:
        self._signer = signer

    def write_signature_info(self, info: encoding.SignatureInfo) -> None:
        self._signer.write_signature_info(info)
        info.signature_time, info.signature_nonce = 1_700_000_000_000, 8

    def __getattr__(self, name: str) -> object:
        return getattr(self._signer, name)


def from_builders() -> dict[str, bytes]:
    """What this implementation makes."""
    name = from_uri("/a/b")
    interest = make_interest(
        name, nonce=1, can_be_prefix=True, must_be_fresh=True, hop_limit=3, lifetime_ms=300
    )
    data = make_data(name, b"x", freshness_ms=10, content_type=2, key_name=from_uri("/k"))
    large = make_data(name, bytes(1800))
    fragments = LinkService(1500, 9).send(large)
    return {
        "interest": interest,
        "not-an-lli": make_interest(from_uri("/a/seq=3"), nonce=1, send_credit=5),
        "lli": make_interest(item_name(OWN_NAME, 3), nonce=1, lifetime_ms=300, hop_limit=3, send_credit=5),
        "lli-known": make_interest(
            item_name(OWN_NAME, 3), nonce=1, hop_limit=3, send_credit=5, known=Evidence(300, 2)
        ),
        "persistent": make_persistent(interest),
        "parameters": make_interest_with_parameters(name, b"p", nonce=1, lifetime_ms=300, hop_limit=3),
        "hint": make_interest(name, nonce=1, forwarding_hint=[name, from_uri("/here")]),
        "no-nonce": element(5, element(7, name) + element(0x0C, nni(300))),
        "small-fragment": make_lp(b"part", sequence=7, frag_index=1, frag_count=3),
        "data": data,
        "item": items_of(RELAYED, 0)[1].wire,
        "nack": make_lp(interest, nack_reason=NO_ROUTE, pit_token=b"token"),
        "tagged": make_lp(
            interest, next_hop_face=2, incoming_face=1, congestion_mark=1, non_discovery=True, tx_sequence=4
        ),
        "announced": make_lp(data, no_cache=True, announcement=data, acks=(1, 2, 3)),
        "pushed": make_lp(data, tip=7, limit=9),
        "feed-state": make_feed_state(OWN_NAME, tip=7, limit=9, first=3),
        "feed-state-evidence": make_feed_state(
            OWN_NAME, tip=7, limit=9, evidence=Evidence(4, 1, True, bytes(64))
        ),
        "pushed-evidence": make_lp(data, tip=7, limit=9, evidence=Evidence(300, 1)),
        "hello": make_hello(HELLO),
        "hello-quiet": make_hello(Hello(granted=bytes(8))),
        **{f"fragment-{number}": frame for number, frame in enumerate(fragments)},
    }


def for_wire() -> dict[str, bytes]:
    """Packets, one an input."""
    return from_vectors() | from_specification() | from_python_ndn() | from_builders()


def for_node() -> dict[str, bytes]:
    """Conversations of a node with its neighbours and an application, and what an attacker says."""
    relayed = items_of(RELAYED, 0)
    digest = component(IMPLICIT_DIGEST, hashlib.sha256(make_data(CACHED, b"b", freshness_ms=1000)).digest())
    data = make_data(PENDING + component(8, b"1"), b"answer", freshness_ms=1000)
    fresh = make_interest(CACHED, nonce=2, must_be_fresh=True, can_be_prefix=True, hop_limit=5)
    pending = make_interest(PENDING, nonce=NONCE, can_be_prefix=True)
    scoped = [make_interest(from_uri(f"/{scope}/x"), nonce=2) for scope in ("localhost", "localhop")]
    cut = LinkService(1500, 9).send(make_data(PENDING, bytes(1800)))
    chosen = make_lp(make_interest(from_uri("/net/q"), nonce=8), next_hop_face=2, pit_token=b"t")
    app = make_interest(from_uri("/app/x"), nonce=3, lifetime_ms=500)
    everywhere = make_interest(from_uri("/net/all/x"), nonce=4)
    proof = element(FORK_PROOF, relayed[2].wire + relayed[3].wire)
    stories = {
        "answered": [Event(1, 3, data), Event(0, 2, make_interest(PENDING, nonce=5, can_be_prefix=True))],
        "cached": [Event(0, 0, make_interest(CACHED, nonce=2)), Event(2, 8, fresh)],
        "digest": [Event(0, 0, make_interest(CACHED + digest, nonce=2))],
        "looped": [Event(1, 0, pending)],
        "nack": [Event(1, 1, make_lp(pending, nack_reason=NO_ROUTE))],
        "multicast": [
            Event(0, 0, everywhere),
            *(Event(link, 1, make_lp(everywhere, nack_reason=DUPLICATE)) for link in (1, 2)),
        ],
        "hint": [
            Event(0, 0, make_interest(from_uri("/x"), nonce=6, forwarding_hint=[from_uri(uri)]))
            for uri in ("/here", "/net")
        ],
        "application": [
            Event(0, 0, app),
            Event(APPLICATION, 2, make_data(from_uri("/app/x"), b"y")),
            Event(APPLICATION, 1, chosen),
        ],
        "own-feed": [
            Event(2, 0, make_interest(item_name(OWN_NAME, 1), nonce=7, lifetime_ms=2000, send_credit=9)),
            Event(2, 5, make_interest(item_name(OWN_NAME, 1), nonce=8, lifetime_ms=2000, send_credit=0)),
            Event(3, 1, make_interest(item_name(OWN_NAME, 2), nonce=9)),
        ],
        "pushed": [Event(1, 1, make_lp(item.wire, tip=9, limit=8)) for item in relayed[2:6]],
        "gap": [Event(1, 1, relayed[5].wire), Event(WAKE, 0), Event(1, 3, relayed[2].wire), Event(WAKE, 0)],
        "state": [Event(1, 1, make_feed_state(RELAYED_NAME, tip=30, limit=8, first=5)), Event(WAKE, 0)],
        "source": [
            Event(1, 1, make_feed_state(RELAYED_NAME, tip=0, limit=8, evidence=Evidence(1, 0))),
            Event(1, 1, make_hello(HELLO)),
            Event(WAKE, 0),
            Event(1, 1, make_hello(HELLO._replace(is_forgotten=True))),
        ],
        "proof": [Event(1, 0, make_data(fork_name(RELAYED_NAME, 3), proof))],
        "cut": [Event(CUT, 1), Event(PAUSE, 8), Event(CUT, 1), Event(CUT, 0), Event(WAKE, 0)],
        "cut-and-answered": [Event(CUT, 0), Event(1, 3, data), Event(CUT, 0)],
        "expired": [Event(PAUSE, 11), Event(PAUSE, 15)],
        "fragments": [Event(0, 0, frame) for frame in cut],
        "localhost": [Event(0, 0, interest) for interest in scoped],
    }
    lli = make_interest(item_name(RELAYED_NAME, 1), nonce=2, send_credit=8)
    attacker = Target(RELAYED_NAME, relayed, 6, [lli])
    for kind in (*FORGERIES, *MISCHIEF):
        frame = inject(kind, 1, attacker)
        if frame is not None:
            stories[f"attack-{kind}"] = [Event(1, 0, frame)]
    return encoded(stories)


def for_management() -> dict[str, bytes]:
    """Every command and dataset once, with parameters that make sense, and some that do not."""
    prefix, face = element(7, from_uri("/p")), element(0x69, nni(257))
    uri = element(0x72, b"udp4://192.0.2.9:6363")
    strategy = element(0x6B, element(7, from_uri("/localhost/nfd/strategy/multicast/v=5")))
    parameters = {
        "/rib/register": prefix + element(0x6A, nni(3)) + element(0x6C, nni(3)) + element(0x6D, nni(500)),
        "/rib/unregister": prefix,
        "/fib/add-nexthop": prefix + face + element(0x6A, nni(1)),
        "/fib/remove-nexthop": prefix + face,
        "/faces/create": uri + element(0x85, nni(2)) + element(0x6C, nni(2)) + element(0x70, nni(2)),
        "/faces/update": element(0x69, nni(256)) + element(0x6C, nni(1)) + element(0x70, nni(1)),
        "/faces/destroy": face,
        "/cs/config": element(0x83, nni(3)) + element(0x6C, nni(1)) + element(0x70, nni(3)),
        "/cs/erase": prefix + element(0x84, nni(9)),
        "/strategy-choice/set": prefix + strategy,
        "/strategy-choice/unset": prefix,
    }
    stories = {}
    for number, verb in enumerate(management.VERBS):
        wanted = element(0x68, parameters[verb]) if verb in parameters else b""
        ask = make_interest(
            from_uri(f"/localhost/nfd{verb}"), nonce=number, can_be_prefix=True, must_be_fresh=True
        )
        stories[verb.strip("/").replace("/", "-")] = [
            Event(management.COMMAND, number, wanted),
            Event(management.PACKET, 0, ask),
            Event(PAUSE, 2),
        ]
    period = element(0x6D, nni(1000))
    announcement = make_data(from_uri("/pa/32=PA/v=1/seg=0"), period, content_type=5)
    announce = management.VERBS.index("/rib/announce")
    stories["announce"] = [Event(management.COMMAND, announce, announcement)]
    signed = Signer(lambda: management.START_MS, Random(5)).command(from_uri("/rib/list"), b"")
    stories["signed"] = [Event(kind, 0, signed) for kind in (management.PACKET, management.FROM_NEIGHBOUR)]
    return encoded(stories)


def for_captures() -> dict[str, bytes]:
    """Captures of every format and link type, with packets of every kind."""
    packets = [packet for packet in for_wire().values() if len(packet) < 400][::3]
    name = element(7, from_uri("/a/b"))
    old = element(5, name + element(9, element(14, b"\1") + element(18)) + element(10, bytes(4)))
    wrong = (b"\0\1x", element(70000, b"x"), element(1, bytes(31)), b"\x08\x09x")
    packets += [
        old,
        *(element(5, element(7, from_uri("/a") + part) + element(10, bytes(4))) for part in wrong),
    ]
    inputs = {}
    for number in range(0, len(packets), 8):
        some = packets[number : number + 8]
        inputs[f"pcap-{number}"] = _pcap(1, [_udp(packet) for packet in some])
        inputs[f"pcapng-{number}"] = _pcapng([_udp(packet) for packet in some])
    few = packets[:: len(packets) // 5]
    inputs["ethernet"] = _pcap(1, [bytes(12) + b"\x86\x24" + packet for packet in few])
    inputs["vlan"] = _pcap(1, [bytes(12) + b"\x81\0\0\5" + _udp(packet)[12:] for packet in few])
    inputs["ppp"] = _pcap(9, [b"\0\x77" + packet for packet in few])
    inputs["raw"] = _pcap(101, [_udp(packet)[14:] for packet in few])
    inputs["cooked"] = _pcap(113, [bytes(14) + _udp(packet)[12:] for packet in few])
    inputs["ip-fragment"] = _pcap(1, [_udp(packet, fragment=b"\x20\0") for packet in few])
    inputs["segments"] = _pcap(
        1, [_segment(at, packet) for at, packet in zip((0, 99, 500), few, strict=False)]
    )
    frames = [b"\x82" + bytes((len(packet),)) + packet for packet in few if len(packet) < 126]
    masked = [frame[:1] + bytes((frame[1] | 0x80,)) + bytes(4) + frame[2:] for frame in frames]
    answer = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
    inputs["websocket"] = _pcap(1, _in_order([answer, *frames], 9696))
    inputs["websocket-client"] = _pcap(1, _in_order([b"GET / HTTP/1.1\r\n\r\n", *masked], 9696))
    inputs["websocket-middle"] = _pcap(1, _in_order(masked, 9696))
    inputs["no-frame"] = _pcap(1, [])
    return inputs


def for_ssb() -> dict[str, bytes]:
    """What peers say to each other, and what they must not."""
    feed, other, blob = ssb.AUTHOR.ref, ssb.OTHER.ref, blob_ref(hashlib.sha256(ssb.BLOB.encode()).digest())
    absent = blob_ref(bytes(32))
    messages = [stringify(parse(message.text), indent=0).encode() for message in ssb.FEED]
    ebt = Event(ssb.REQUEST, 20, b'[{"version":3,"format":"classic"}]')
    history, wants, get, has, ping = (ssb.NAMES.index(name) + 10 * form for name, form in _CALLS)

    def part(value: object, call: int = 1) -> Event:
        return Event(ssb.PART, call - 1, json.dumps(value).encode())

    def asked(call: int, *options: object) -> list[Event]:
        return [Event(ssb.REQUEST, call, json.dumps(options).encode())]

    unasked = Message.create(ssb.OTHER, None, {"type": "post"}, 1.0)
    fork = Message.create(ssb.AUTHOR, ssb.FEED[2], {"type": "post", "text": "other"}, 1.0)
    named, asked_for = json.dumps(ssb.NAMED).encode(), json.dumps(ssb.ASKED.content).encode()
    offer = json.dumps({ssb.NAMED["hash"]: len(ssb.DATA)}).encode()
    comes = [
        *asked(wants),
        Event(ssb.ANSWER, 0, offer),
        Event(ssb.ANSWER, 1, ssb.DATA),
        Event(ssb.END, 17, b"true"),
    ]
    inputs = {
        "notes": [ebt, part({feed: 16}), part({feed: 17, other: 0}), part({feed: -1}), part({})],
        "messages": [ebt, part({feed: 16}), *(Event(ssb.PART, 0, body) for body in messages[4:])],
        "gap": [ebt, part({feed: 16}), Event(ssb.PART, 0, messages[6])],
        "fork": [ebt, part({feed: 16}), Event(ssb.PART, 0, fork.encoded)],
        "other": [ebt, part({other: 16}), part(3), part([]), part({feed: "x"})],
        "unasked": [
            ebt,
            Event(ssb.PART, 0, unasked.encoded),
        ],
        "history": asked(history, {"id": feed, "seq": 2, "limit": 2, "keys": False}),
        "history-live": [
            *asked(history, {"id": feed, "live": True, "old": False}),
            Event(PAUSE, 2),
        ],
        "history-none": asked(history, {"id": feed, "seq": "x"}) + asked(history, {"id": 3}) + asked(history),
        "wants": [*asked(wants), Event(ssb.ANSWER, 0, json.dumps({blob: -1, absent: -1}).encode())],
        "wants-none": [Event(ssb.ANSWER, 0, json.dumps({blob: "x"}).encode())],
        "blob": asked(get, blob)
        + asked(get, {"key": blob, "max": 5})
        + asked(get, absent)
        + asked(has, blob),
        "ping": [*asked(ping, {"timeout": 3}), part(1), Event(ssb.END, 0, b"true")],
        "idle": [Event(PAUSE, which) for which in range(5)],
        "goodbye": [Event(ssb.RAW, 0, bytes(9))],
        "no-list": [Event(ssb.REQUEST, history, b"3"), Event(ssb.REQUEST, 20, b"{}")],
        "handshake": [Event(ssb.HANDSHAKE, 0, bytes(64)), Event(ssb.HANDSHAKE, 1, bytes(80))],
        "boxes": [Event(ssb.BOXES, 0, Boxer(b"k" * 32, bytes(24)).box(b"x" * 50))],
        "content": [Event(ssb.BOXES, 1, each) for each in (ssb.DATA, named, asked_for)],
        "suites": [Event(ssb.BOXES, 2, text.encode()) for text in suites.TEXTS]
        + [Event(ssb.BOXES, 2, json.dumps(content).encode()) for content in (*suites.CONTENTS, suites.END)],
        "content-comes": comes,
        "content-goes": [*comes, ebt, part({feed: 16}, 2), Event(ssb.PART, 1, messages[4])],
        "content-late": [ebt, part({feed: 16}), Event(ssb.PART, 0, messages[4]), *comes],
    }
    return encoded(inputs)


def for_tiny() -> dict[str, bytes]:
    """What clients sign, genuine packets in and out of order, and vectors and claims."""
    signed, say, key = tiny.SIGNED, tinyisp.write, bytes(range(32))
    control, data, root = range(3)
    ref, other = tiny.REF, tiny.OTHER.public_key
    every = tiny.genuine()[1]
    prev, tunnelled = Event(signed, data, say(tinyisp.HopPrev(None))), bytes(range(240))
    in_order = [Event(tiny.GENUINE, at) for at in range(len(every))]
    inputs = {
        "genuine": in_order,
        "backwards": in_order[::-1],
        "forged": [
            Event(tiny.GENUINE, 4, bytes((119, 1))),
            Event(tiny.GENUINE, 4, b"\x14\x01"),
        ],
        "want": [Event(tiny.WANT, which, encode([0, 1, 1])) for which in range(8)],
        "chunks": [Event(tiny.CHUNKS, which, encode([[0, 2, 0], [1, 1, 1]])) for which in range(8)],
        "novelty": [Event(tiny.CLAIM, which, b"n" + key) for which in range(8)],
        "claim": [
            Event(tiny.CLAIM, which, b"c" + key + bytes(range(1, 33)) + key + b"\x09") for which in range(8)
        ]
        + [Event(PAUSE, 2)],
        "values": [
            Event(tiny.PAYLOAD, 0, encode(value))
            for value in (None, True, -1, 2.5, "text", key, [1, [2]], {"a": 1})
        ],
        "requests": [
            Event(signed, control, say(message))
            for message in (
                tinyisp.SubRequest(other, key),
                tinyisp.SubRequest(key, other),
                tinyisp.SubResponse(ref, True, key),
                tinyisp.SubResponse(ref, False, None),
                tinyisp.SubRequestIsp(ref, key, key),
                tinyisp.SubPause(key),
            )
        ],
        "control": [
            Event(signed, control, say(message))
            for message in (tinyisp.OnboardAck(key), tinyisp.HopFin(key), tinyisp.FarewellFin())
        ],
        "farewell": [
            Event(signed, control, say(tinyisp.FarewellInit())),
            prev,
            Event(signed, data, say(tinyisp.HopNext(None))),
            Event(signed, control, say(tinyisp.FarewellFin())),
            Event(PAUSE, 3),
        ],
        "line": [prev, *[Event(signed, data, tunnelled)] * 6],
        "hop": [prev, Event(signed, data, say(tinyisp.HopNext(key)))],
        "hop-back": [prev, Event(signed, data, say(tinyisp.HopNext(other)))],
        "short-key": [prev, Event(signed, data, encode(["ISP", "feedhopping_next", key[:31]]))],
        "onboard": [
            Event(signed, root, say(tinyisp.OnboardRequest(tiny.ISP.public_key, key))),
            Event(PAUSE, 2),
        ],
        "idle": [Event(PAUSE, which) for which in range(4)],
    }
    return encoded(inputs)


_CALLS = (
    ('["createHistoryStream"]', 1),
    ('["blobs","createWants"]', 1),
    ('["blobs","get"]', 1),
    ('["blobs","has"]', 0),
    ('["gossip","ping"]', 2),
)
"""Names of calls, and the numbers of their forms."""


def _udp(packet: bytes, fragment: bytes = b"\x40\0") -> bytes:
    frame = udp_frame(bytes(6), bytes(6), "10.0.0.1", "10.0.0.2", 6363, 6363, packet)
    return frame[:20] + fragment + frame[22:]


def _in_order(parts: list[bytes], port: int) -> list[bytes]:
    """Return the segments of a stream, in order."""
    starts = accumulate(map(len, parts), initial=0)
    return [_segment(at, part, port) for at, part in zip(starts, parts, strict=False)]


def _segment(sequence: int, packet: bytes, port: int = 6363) -> bytes:
    ip = struct.pack("!BBHHHBBH8x", 0x45, 0, 40 + len(packet), 0, 0, 64, 6, 0)
    tcp = struct.pack("!HHIIBBHHH", port, 9, sequence, 0, 0x50, 0x10, 0, 0, 0)
    return bytes(12) + b"\x08\0" + ip + tcp + packet


def _pcap(link_type: int, frames: list[bytes]) -> bytes:
    records = [struct.pack("<4I", at, 0, len(frame), len(frame)) + frame for at, frame in enumerate(frames)]
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, link_type) + b"".join(records)


def _pcapng(frames: list[bytes]) -> bytes:
    file = io.BytesIO()
    writer = Writer(file, [Interface("a-eth0"), Interface("b-eth0")], application="feednet")
    for at, frame in enumerate(frames):
        writer.write(at % 2, at * 1_000_000, frame, Direction.OUT if at % 2 else Direction.IN)
    return file.getvalue()


def main() -> None:
    """Write all."""
    made = {
        "wire": for_wire(),
        "node": for_node(),
        "management": for_management(),
        "captures": for_captures(),
        "ssb": for_ssb(),
        "tiny": for_tiny(),
        "mapping": for_mapping(),
        "mqtt": for_mqtt(),
        "multicast": for_multicast(),
        "moq": for_moq(),
    }
    for name, inputs in made.items():
        path = corpus.SEEDS / f"{name}.hex"
        found = {what: data for what, data in corpus.read(path).items() if what.startswith(FOUND)}
        path.parent.mkdir(exist_ok=True)
        corpus.write(path, inputs | found)
        print(f"{path.name}: {len(inputs)} inputs, and {len(found)} found by fuzzing")


if __name__ == "__main__":
    main()
