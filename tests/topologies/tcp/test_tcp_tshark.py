"""tshark's judgement of a conversation: sound frames, right checksums, and what was sent again."""

import shutil
import subprocess
from collections import Counter

import pytest
from tcp_world import Talker, World, conversation

from base.units import SECOND
from captures.formats.pcapng import Interface, Writer
from topologies.emulator.tcp.segment import FIN, SYN
from topologies.emulator.tcp.settings import Settings
from topologies.model import Link

SOUND = "1"
AGAIN = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order")
"""The last one is what tshark takes a repetition for that comes soon after a later segment; at the sender,
where this is captured, nothing is out of order."""
FIELDS = (
    *("ip.src", "tcp.seq_raw", "tcp.len", "tcp.flags", "ip.checksum.status", "tcp.checksum.status"),
    *("_ws.malformed", "tcp.analysis.flags", *(f"tcp.analysis.{kind}" for kind in AGAIN)),
    *("tcp.analysis.lost_segment", "tcp.connection.rst"),
)
CHECKS = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")


def read(path):
    """What tshark says of each frame."""
    columns = [part for field in FIELDS for part in ("-e", field)]
    command = ["tshark", "-n", "-r", str(path), *CHECKS, "-T", "fields", *columns]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("loss", [0, 3])
def test_tshark_finds_nothing_wrong(tmp_path, loss):
    """The capture is a's, as tcpdump there would write it: what b has sent and lost is not in it."""
    link = Link("a", "b", bw_mbit=10, delay_ms=20, loss_percent=loss, max_queue_size=200)
    path = tmp_path / "a.pcapng"
    again = []
    seen = Counter()

    def count(node, segment):
        if node == 0 and segment.length:
            if seen[segment.sequence]:
                again.append(segment.sequence)
            seen[segment.sequence] += 1

    with path.open("wb") as file:
        writer = Writer(file, [Interface("a-eth0")], application="test")
        world = World(link, 5, (Settings(msl=SECOND),) * 2, writer)
        world.sent.append(count)
        talkers = [Talker(world, 0, bytes(range(256)) * 1500), Talker(world, 1, b"answer" * 300)]
        conversation(world, talkers)
        assert world.run()
    assert bytes(talkers[1].got) == bytes(range(256)) * 1500
    rows = read(path)
    assert {row["ip.checksum.status"] for row in rows} == {SOUND}
    assert {row["tcp.checksum.status"] for row in rows} == {SOUND}
    assert {row["_ws.malformed"] for row in rows} == {""}
    assert {row["tcp.connection.rst"] for row in rows} == {""}
    recognised = [
        int(row["tcp.seq_raw"])
        for row in rows
        if row["ip.src"] == world.addresses[0] and any(row[f"tcp.analysis.{kind}"] for kind in AGAIN)
    ]
    assert Counter(recognised) == Counter(again)
    assert bool(again) == bool(loss)
    assert sum(int(row["tcp.flags"], 16) & SYN != 0 for row in rows) == 2
    assert sum(int(row["tcp.flags"], 16) & FIN != 0 for row in rows) >= 2
    if not loss:
        assert {row["tcp.analysis.lost_segment"] for row in rows} == {""}
        assert all(row["tcp.analysis.flags"] == "" for row in rows)
