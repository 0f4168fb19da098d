"""Impairments that change the bytes of frames: a declared parameter is all that one takes."""

import struct
from dataclasses import dataclass

import pytest

from base.endpoint import LinkPort, Program
from base.units import MS
from topologies.emulator.network import EmulatedNetwork
from topologies.emulator.underlay import UDP, Packet
from topologies.mininet.network import BringUpError, MininetNetwork
from topologies.model import Link, Topology
from topologies.parameter import parameter
from topologies.pipe import Pipe, netem, pipe_rng


def corrupt(frame, percent, _queued, random):
    """One bit of a frame is wrong, its last byte's."""
    return frame[:-1] + bytes([frame[-1] ^ 1]) if random() < percent / 100 else frame


def mark(frame, threshold, queued, _random):
    """Congestion Experienced (RFC 3168) on frames that find a queue; the header's checksum is right."""
    if queued < threshold:
        return frame
    header = frame[14:15] + b"\x03" + frame[16:24] + bytes(2) + frame[26:34]
    checksum = struct.pack("!H", -int.from_bytes(header) % 0xFFFF)
    return frame[:14] + header[:10] + checksum + header[12:] + frame[34:]


@dataclass(frozen=True, kw_only=True)
class Odd(Link):
    corrupt_percent: float = parameter(
        "corruption", "%", most=100, means="", netem="corrupt {:.6f}%", changes=corrupt
    )
    ecn_threshold: int = parameter("marking", "frames", means="", changes=mark, default=0)


class Talker:
    def __init__(self, payloads=()):
        self.outputs = [(1, payload, None) for payload in payloads]
        self.received = []

    def receive(self, port, payload, sender, now):
        self.received.append(payload)

    def take_outputs(self):
        outputs, self.outputs = self.outputs, []
        return outputs

    def next_deadline(self):
        return None

    def wake(self, now):
        pass


class Frames:
    """In place of a capture's writer."""

    def __init__(self):
        self.arrived = []

    def write(self, interface, time, frame, direction):
        if interface == 1:
            self.arrived.append(frame)


def arrivals(link, payloads):
    """Return what b's interface receives, and what its program does."""
    topology = Topology(("a", "b"), (link,))
    talkers = {"a": Talker(payloads), "b": Talker()}
    programs = {
        end.node: [Program(talkers[end.node], {1: LinkPort(end, 6363)})] for end in topology.link_ends
    }
    frames = Frames()
    EmulatedNetwork(topology, programs, seed=1, capture=frames).run(1000 * MS)
    return frames.arrived, talkers["b"].received


def test_a_damaged_frame_arrives_and_is_dropped_by_its_checksum():
    frames, received = arrivals(Odd("a", "b", corrupt_percent=50), [bytes([n]) for n in range(100)])
    damaged = [frame for frame in frames if Packet.of_frame(frame) is None]
    assert len(frames) == 100
    assert 30 < len(damaged) < 70
    assert received == [bytes([n]) for n, frame in enumerate(frames) if frame not in damaged]


def test_a_mark_in_the_header_reaches_the_capture_and_the_datagram_its_program():
    link = Odd("a", "b", bw_mbit=1, ecn_threshold=3)
    frames, received = arrivals(link, [bytes([n]) for n in range(10)])
    assert [frame[15] for frame in frames] == [0] * 3 + [3] * 7
    assert received == [bytes([n]) for n in range(10)]


def test_luck_is_drawn_for_every_frame():
    fates = []
    for more in ({}, {"bw_mbit": 0.001, "max_queue_size": 1}):
        link = Odd("a", "b", corrupt_percent=50, **more)
        pipe = Pipe(link, pipe_rng(1, link, "a"))
        fates.append([pipe.send(n * 10 * MS, bytes(50)) for n in range(100)])
    pairs = [(one, other) for one, other in zip(*fates, strict=True) if other]
    assert 1 < len(pairs) < 100
    assert all(one[0][1] == other[0][1] for one, other in pairs)


def test_netem_corrupts_and_leaves_marking_to_the_relay(tmp_path):
    assert netem(Odd("a", "b", corrupt_percent=5)) == ["corrupt", "5.000000%", "limit", "1000000"]
    topology = Topology(("a", "b"), (Odd("a", "b", ecn_threshold=3),))
    with pytest.raises(BringUpError, match="it has no ecn_threshold; choose the relay"):
        MininetNetwork(topology, 1, "netem", directory=tmp_path)


@pytest.mark.parametrize("cut", [0, 13, 14, 20, 33, 34, 41])
def test_what_is_no_whole_datagram_is_damaged(cut):
    packet = Packet("10.0.0.1", "10.0.0.2", UDP, bytes(8), 1)
    frame = packet.to_frame(bytes(6), bytes(6))
    assert Packet.of_frame(frame[:cut]) is None
