"""Captures of a few packets between hosts A, B and C, made with Scapy."""

import struct

import pyarrow.parquet as pq
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import PcapWriter

from captures.formats.pcapng import Direction, Interface, Writer
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.1.2"
IP4 = Ether(src="02:00:00:00:00:0a", dst="02:00:00:00:00:0b") / IP(src=A, dst=B)


def write(path, *frames):
    path.parent.mkdir(parents=True, exist_ok=True)
    with PcapWriter(str(path)) as writer:
        for number, frame in enumerate(frames):
            frame.time = 1_700_000_000 + number / 1000
            writer.write(frame)
    return path


def write_pcapng(path, frames, times=None):
    """Write the frames of some interfaces, by their names; times in ns, of any 64 bits."""
    with path.open("wb") as file:
        writer = Writer(file, [Interface(name) for name in frames], application="test")
        place = file.tell()
        for number, same in enumerate(frames.values()):
            for at, frame in enumerate(same):
                way = Direction.OUT if frame[IP].src == A else Direction.IN
                writer.write(number, 1_700_000_000_000_000_000 + at * 1_000_000, bytes(frame), way)
    if times:
        whole = bytearray(path.read_bytes())
        for time in times:
            kind, size = struct.unpack_from("<II", whole, place)
            assert kind == 6
            struct.pack_into("<II", whole, place + 12, time >> 32, time & 0xFFFFFFFF)
            place += size
        path.write_bytes(whole)
    return path


def set_clock_back(path, place, seconds):
    """Have the clock of an interface of a little-endian pcapng file begin so many seconds before 1970."""
    data = path.read_bytes()
    at = 0
    for _ in range(place + 1):  # the section's header comes first
        at += struct.unpack_from("<I", data, at + 4)[0]
    kind, size = struct.unpack_from("<II", data, at)
    assert kind == 1
    offset = struct.pack("<HHq", 14, 8, -seconds)  # if_tsoffset, before the end of options
    length = struct.pack("<I", size + len(offset))
    block = data[at : at + 4] + length + data[at + 8 : at + size - 8] + offset + bytes(4) + length
    path.write_bytes(data[:at] + block + data[at + size :])


def udp(source, target, packet, mac="02:00:00:00:00:01"):
    head = Ether(src=mac, dst="02:00:00:00:00:ff") / IP(src=source, dst=target)
    return head / UDP(sport=6363, dport=6363) / Raw(packet)


def question(source, target, name, nonce=1):
    return udp(source, target, make_interest(from_uri(name), nonce=nonce))


def answer(source, target, name):
    return udp(source, target, make_data(from_uri(name), b"x" * 50))


def table(out, name="packets"):
    return pq.read_table(out / name).to_pylist()
