"""Speed of decoding captures: `make bench-decode`, or `python -m testbed.bench.runs.decode [--packets N]`.

One capture is made (Interests and Data of distinct names, each seen at both ends of a link, pcapng of some
450 bytes a packet), and read in four ways: by tshark, exporting number, time, addresses, ports and payload
length of each frame; by Scapy, dissecting frames as far as it can, which is to UDP; by feednet's decoder
alone, into Arrow; and by `feednet analyze` with Spark on two cores, into Parquet. tshark and Scapy read only
its first part, as their time grows with the frames. tshark has no dissector for NDN of its own: feednet does
more work.

Only ratios within one repetition count; shown are the median, the minimum and the maximum. The decoder alone
is measured in processor time, comparisons with Spark by wall clock.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import BinaryIO

import click

from analysis.decode.reader import ReadStatistics, read_packets
from analysis.decode.reading import Reading
from analysis.spark.parquet import BY
from analysis.spark.session import spark_session
from analysis.spark.to_parquet import extract
from captures.formats.files import Piece, cut
from captures.formats.pcapng import Direction, Interface, Writer
from captures.layers.frames import udp_frame
from forwarder.wire.feed import item_name, ssb_content
from forwarder.wire.lp import make_lp
from forwarder.wire.name import component, from_uri
from forwarder.wire.packet import make_data, make_interest
from testbed.bench.figures import Measured, Row, Series
from testbed.bench.program import command, report, run

DECODER_BAR = 1_000_000
"""Target of the decoder alone, packets per CPU second."""
TSHARK_BAR, SCAPY_BAR = 10, 80
"""Target speed-ups of decoding with Spark over tshark and Scapy."""

_FIELDS = (
    "frame.number",
    "frame.time_epoch",
    "frame.len",
    "ip.src",
    "ip.dst",
    "udp.srcport",
    "udp.dstport",
    "udp.length",
)
_MACS = bytes.fromhex("02000000000a"), bytes.fromhex("02000000000b")
_ENDS = ("10.0.0.1", "10.0.0.2")
_FEED = from_uri("/ssb/logs") + component(8, bytes(range(32)))


def write_capture(path: Path, packets: int) -> None:
    """Write a capture of `packets` frames, rounded up to exchanges of four."""
    with path.open("wb", buffering=1 << 20) as file:
        writer = begin_capture(file)
        for number in range(-(-packets // 4)):
            write_exchange(writer, number, number * 1_000_000)


def begin_capture(file: BinaryIO) -> Writer:
    """Begin a capture of both ends of a link."""
    return Writer(file, [Interface(name) for name in ("a-eth0", "b-eth0")], application="feednet bench")


def write_exchange(writer: Writer, number: int, time_ns: int) -> None:
    """Write an Interest and its Data, each as sent and as received, from a time on."""
    name = item_name(_FEED, number + 1)
    interest = make_interest(name, nonce=number, lifetime_ms=4000, hop_limit=32)
    data = make_data(name, ssb_content(bytes(500 + number % 200)), freshness_ms=1000)
    if number % 2:
        data = make_lp(data, tip=number + 1, limit=number + 65)
    request = udp_frame(*_MACS, *_ENDS, 6363, 6363, interest, number)
    answer = udp_frame(*_MACS[::-1], *_ENDS[::-1], 6363, 6363, data, number)
    ways = (
        (0, request, Direction.OUT),
        (1, request, Direction.IN),
        (1, answer, Direction.OUT),
        (0, answer, Direction.IN),
    )
    for step, (end, frame, way) in enumerate(ways):
        writer.write(end, time_ns + step * 1000, frame, way)


def alone(path: Path) -> float:
    """Return CPU seconds of the decoder alone."""
    before = time.process_time()
    for _ in read_packets(Reading("bench", Piece(str(path), 0, None, b"", 1)), ReadStatistics()):
        pass
    return time.process_time() - before


def by_tshark(path: Path) -> float:
    """Return seconds of tshark's field export."""
    words = ["tshark", "-n", "-r", str(path), "-T", "fields", *(f"-e{field}" for field in _FIELDS)]
    with tempfile.TemporaryDirectory() as home:  # excludes the user's settings and plugins
        environment = {**os.environ, "HOME": home, "WIRESHARK_CONFIG_DIR": home}
        before = time.perf_counter()
        subprocess.run(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env=environment
        )
        return time.perf_counter() - before


def by_scapy(path: Path) -> float:
    """Return seconds of Scapy's dissection."""
    # Scapy dissects the link types of imported layers, and returns others as they are.
    from scapy.layers import inet, l2
    from scapy.utils import PcapNgReader

    before = time.perf_counter()
    with PcapNgReader(str(path)) as reader:
        for packet in reader:
            if not (isinstance(packet, l2.Ether) and packet.haslayer(inet.UDP)):
                raise RuntimeError("Scapy has not dissected a frame")
    return time.perf_counter() - before


@command
@click.option("--packets", type=click.IntRange(min=1000), default=1_000_000)
@click.option("--repetitions", type=click.IntRange(min=1), default=3)
def bench(packets: int, repetitions: int, as_json: bool) -> None:
    """Measure how fast captures are decoded."""
    rates: Measured = defaultdict(Series)
    with tempfile.TemporaryDirectory() as scratch:
        whole, part, few = (Path(scratch, name) for name in ("whole.pcapng", "part.pcapng", "few.pcapng"))
        for path, count in ((whole, packets), (part, min(packets, 100_000)), (few, min(packets, 5000))):
            write_capture(path, count)
        spark = spark_session("local[2]")
        out = Path(scratch, "packets")
        sizes = {whole: -(-packets // 4) * 4, part: min(packets, 100_000), few: min(packets, 5000)}

        def with_spark(path: Path) -> float:
            shutil.rmtree(out, ignore_errors=True)
            before = time.perf_counter()
            extract([Reading("bench", piece) for piece in cut(path)], out, BY, spark)
            return time.perf_counter() - before

        with_spark(few)
        alone(part)
        for _ in range(repetitions):
            for name, way, path in (
                ("tshark", by_tshark, part),
                ("scapy", by_scapy, few),
                ("alone", alone, whole),
                ("spark", with_spark, whole),
            ):
                if name != "tshark" or shutil.which("tshark"):
                    rates[name].add(sizes[path] / way(path))
        size = whole.stat().st_size
    rows = [
        Row("decoder alone, a CPU second", rates["alone"], "packets/s", DECODER_BAR),
        Row("Spark, two cores, to Parquet", rates["spark"], "packets/s"),
    ]
    for name, what, least in (
        ("tshark", "tshark, fields up to", TSHARK_BAR),
        ("scapy", "Scapy, up to", SCAPY_BAR),
    ):
        ratio = rates["spark"].over(rates[name]) if name in rates else None
        note = "" if ratio else "not there"
        rows.append(Row(f"{what} UDP", rates.get(name), "packets/s", note=note))
        rows.append(Row("  Spark's rate over it", ratio, "", least))
    report(f"{packets} packets, {size >> 20} MB", rows, as_json, packets=packets, bytes=size)


if __name__ == "__main__":
    run(bench, "testbed.bench.runs.decode")
