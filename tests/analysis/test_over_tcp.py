"""A layering without NDN in a report: its bytes count on every link, and nothing is said of PITs."""

from collections import Counter

import pcapng_oracle
import pyarrow.parquet as pq
import pytest
from short_runs import emulate

from analysis.pipelines.run import analyze
from captures.pcapng import Direction


@pytest.fixture(scope="module")
def compared(spark, tmp_path_factory):
    run = emulate(
        tmp_path_factory.mktemp("over-tcp") / "run", "line", items=15, layerings=("append-poll", "poll")
    )
    analyze(run.directory)
    return run


def values(run, layering):
    rows = pq.read_table(run.comparison).to_pylist()
    return {row["metric"]: row["value"] for row in rows if row["layering"] == layering}


@pytest.mark.spark
def test_it_is_compared_on_all_but_what_only_ndn_has(compared):
    over_tcp, over_ndn = values(compared, "append-poll"), values(compared, "poll")
    for metric in (
        "delivered",
        "latency_p50",
        "first_item_p50",
        "frames_per_item",
        "bytes_per_item",
        "link_use",
    ):
        assert over_tcp[metric] > 0
    for metric in ("pit_entries_mean", "pit_bytes_peak", "interests_per_item"):
        assert over_tcp[metric] is None
        assert over_ndn[metric] > 0


@pytest.mark.spark
@pytest.mark.parametrize("layering", ["append-poll", "poll"])
def test_the_load_of_links_counts_every_frame(compared, layering):
    capture = compared.directory / layering / "capture.pcapng"
    sent = Counter()
    for packet in pcapng_oracle.read(capture):
        if packet.direction is Direction.OUT:
            sent[packet.interface.name.rpartition("-")[0]] += len(packet.frame)
    load = pq.read_table(compared.directory / "tables" / "link_load.parquet").to_pylist()
    told = Counter()
    for row in load:
        if row["layering"] == layering:
            told[row["sender"]] += row["bytes"]
    assert told == sent


@pytest.mark.spark
def test_what_a_link_has_lost_is_counted(compared):
    capture = compared.directory / "append-poll" / "capture.pcapng"
    seen = Counter(packet.direction for packet in pcapng_oracle.read(capture))
    load = pq.read_table(compared.directory / "tables" / "link_load.parquet").to_pylist()
    lost = sum(row["lost"] for row in load if row["layering"] == "append-poll")
    assert lost == seen[Direction.OUT] - seen[Direction.IN] > 0


@pytest.mark.spark
def test_its_page_has_no_pit_and_no_journey(compared, tmp_path):
    both = compared.report.read_text(encoding="utf-8")
    assert "State: the" in both
    assert "append-poll: IPv4 along static routes; all others: best-route" in both
    alone = emulate(tmp_path / "run", "line", items=5, layerings=("append-poll",))
    page = analyze(alone.directory).read_text(encoding="utf-8")
    assert "State: the" not in page
    assert "journey-layering" not in page
    assert "best-route" not in page


def segments(run):
    """Yield (interface, direction, ends, sequence, flags, payload, bytes of the frame) of a capture."""
    for packet in pcapng_oracle.read(run.directory / "append-poll" / "capture.pcapng"):
        frame = packet.frame
        assert (frame[12:15], frame[23]) == (b"\x08\x00\x45", 6), "IPv4 without options, TCP"
        end, tcp = 14 + int.from_bytes(frame[16:18]), frame[34:]
        ends = frame[26:30], tcp[:2], frame[30:34], tcp[2:4]
        payload = frame[34 + (tcp[12] >> 4) * 4 : end]
        yield (
            packet.interface.name,
            packet.direction,
            ends,
            int.from_bytes(tcp[4:8]),
            tcp[13],
            payload,
            len(frame),
        )


@pytest.fixture(scope="module")
def sent(compared):
    """What each interface has sent of each direction of each connection: bytes by place, and the frames."""
    streams, begins, frames = {}, {}, []
    for interface, direction, ends, sequence, flags, payload, size in segments(compared):
        if direction is Direction.IN:
            continue
        frames.append((size, len(payload)))
        if flags & 2:
            begins[interface, ends] = sequence + 1
        octets = streams.setdefault((interface, ends), {})
        for place, octet in enumerate(payload):
            octets.setdefault((sequence - begins[interface, ends] & 0xFFFFFFFF) + place, octet)
    return streams, frames


def cut(octets):
    """Return the sizes of the frames that a stream begins with."""
    stream = bytes(
        octets[place] for place in range(next(n for n in range(len(octets) + 1) if n not in octets))
    )
    sizes, at = [], 0
    while at + 4 <= len(stream):
        size = int.from_bytes(stream[at : at + 4])
        if at + 4 + size > len(stream):
            break
        sizes.append(size)
        at += 4 + size
    return sizes


@pytest.mark.spark
def test_the_bytes_in_tcp_are_told_apart(compared, sent):
    streams, frames = sent
    rows = pq.read_table(compared.directory / "tables" / "overhead.parquet").to_pylist()
    told = {row["layer"]: row["bytes"] for row in rows if row["layering"] == "append-poll" and row["bytes"]}
    assert sum(told.values()) == sum(size for size, _ in frames)
    payload = framing = 0
    for (_, ends), octets in streams.items():
        for size in cut(octets):
            is_message = ends[1] == (8008).to_bytes(2) and size
            payload += size if is_message else 0
            framing += 4 if is_message else 4 + size
    assert told["payload"] == payload
    assert told["append-poll"] == framing
    assert told["tcp again"] == sum(size for _, size in frames) - payload - framing > 0
    assert told["ethernet"] == 14 * len(frames)


@pytest.mark.spark
def test_control_messages_and_connections_are_counted(compared, sent):
    streams, _ = sent
    control = sum(
        1
        for (_, ends), octets in streams.items()
        for size in cut(octets)
        if not size or ends[1] != (8008).to_bytes(2)
    )
    opened = {
        (ends, sequence)
        for _, direction, ends, sequence, flags, _, _ in segments(compared)
        if direction is Direction.OUT and flags & 18 == 2
    }
    over_tcp, over_ndn = values(compared, "append-poll"), values(compared, "poll")
    assert over_tcp["control_per_item"] == pytest.approx(control / over_tcp["delivered"])
    assert over_tcp["connections"] == len(opened) > 1
    assert over_ndn["connections"] is None
    assert over_ndn["control_per_item"] > 1


@pytest.mark.spark
def test_connections_are_told(compared):
    rows = pq.read_table(compared.directory / "tables" / "connections.parquet").to_pylist()
    clients = [row for row in rows if row["direction"] == "out" and row["interface"] == "s1-eth0"]
    assert all(row["protocol"] == "append-poll" and row["server_port"] == 8008 for row in rows)
    assert {row["outcome"] for row in rows} <= {"closed", "reset", "half-closed", "open"}
    assert "closed" in {row["outcome"] for row in clients}
    least = 2 * 60_000_000  # six links of 10 ms, there and back
    assert all(row["handshake_ns"] is None or row["handshake_ns"] >= least for row in clients)
    assert any(row["repeated_down"] for row in rows)


@pytest.mark.spark
def test_the_same_metrics_are_there_as_over_ndn(compared):
    over_tcp, over_ndn = values(compared, "append-poll"), values(compared, "poll")
    for metric in ("bound_p50", "bound_bytes_per_item", "wire_ratio", "useful_share", "latency_ratio_p50"):
        assert over_tcp[metric] > 0
        assert over_ndn[metric] > 0
    assert over_tcp["bound_p50"] >= 60
    assert over_tcp["wire_ratio"] > 1
    assert over_tcp["duplicate_share"] == 0
