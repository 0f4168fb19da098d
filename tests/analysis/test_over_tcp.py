"""A layering without NDN in a report: its bytes count on every link, and nothing is said of PITs."""

import json
import shutil
import subprocess
from collections import Counter

import pcapng_oracle
import pyarrow.parquet as pq
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap
from short_runs import emulate

from analysis.decode.reader import ReadStatistics, read_packets
from analysis.decode.reading import NDN_PORTS, Reading
from analysis.metrics.catalogue import OTHER, STATE_KINDS
from analysis.metrics.run.state import held_levels, read_samples
from analysis.pipelines.captures import AnalysisOptions, Capture, analyse
from analysis.pipelines.run import analyze
from analysis.run.context import Case, Span
from captures.formats.files import cut
from captures.formats.pcapng import Direction
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data


@pytest.fixture(scope="module")
def compared(plain_poll, spark, tmp_path_factory):
    run = emulate(
        tmp_path_factory.mktemp("over-tcp") / "run", "line", items=15, layerings=("plain-poll", "poll")
    )
    analyze(run.directory)
    return run


def values(run, layering):
    rows = pq.read_table(run.comparison).to_pylist()
    return {row["metric"]: row["value"] for row in rows if row["layering"] == layering}


@pytest.mark.spark
def test_it_is_compared_on_all_but_what_only_ndn_has(compared):
    over_tcp, over_ndn = values(compared, "plain-poll"), values(compared, "poll")
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
@pytest.mark.parametrize("layering", ["plain-poll", "poll"])
def test_state_is_that_of_samples(compared, layering):
    found, turn = values(compared, layering), compared.manifest.runs[layering]
    step = turn.sample_interval_ns
    lines = compared.counters(layering).read_text().splitlines()
    total, peak, network, nodes = Counter(), 0, Counter(), set()
    for row in map(json.loads, lines):
        # A sample stands until the next one; means are over the time in which items were published.
        lasted = min(row["time"] + step, turn.last_ns) - max(row["time"], turn.first_ns)
        for kind, size in row["state"].items():
            total[kind] += size["bytes"] * max(0, lasted)
        held = sum(size["bytes"] for size in row["state"].values())
        peak = max(peak, held)
        network[row["time"]] += held
        nodes.add(row["node"])
    means = {kind: size / (turn.last_ns - turn.first_ns) for kind, size in total.items()}
    assert found["state_bytes_network"] == pytest.approx(sum(means.values()))
    assert found["state_bytes_mean"] == pytest.approx(sum(means.values()) / len(nodes))
    assert found["state_bytes_peak"] == peak > 0
    assert found["state_bytes_network_peak"] == max(network.values()) > peak
    of_kinds = {kind: found[f"state_bytes_{kind}"] for kind in STATE_KINDS if found[f"state_bytes_{kind}"]}
    if layering == "plain-poll":
        assert of_kinds == {OTHER: pytest.approx(sum(means.values()) / len(nodes))}
    else:
        of_nodes = {kind: pytest.approx(mean / len(nodes)) for kind, mean in means.items() if mean}
        assert of_kinds == of_nodes
        assert {"pit", "routes"} == of_kinds.keys()


@pytest.mark.spark
def test_samples_of_pits_come_near_to_what_packets_tell(compared):
    """The two ways to measure agree where both can be gone: they differ by what a sample misses."""
    cases = {"poll": Case(compared, "poll")}
    turn = compared.manifest.runs["poll"]
    spans = {"poll": Span(turn.start_ns, turn.end_ns)}, {"poll": Span(turn.first_ns, turn.last_ns)}
    [told] = [row for row in held_levels(read_samples(cases), *spans, 300)["kinds"] if row["kind"] == "pit"]
    over_ndn = values(compared, "poll")
    for what in ("entries", "bytes"):
        assert told[f"mean_{what}"] == pytest.approx(over_ndn[f"pit_{what}_mean"], rel=0.05)
    assert over_ndn["pit_bytes_peak"] * 0.5 < told["peak_bytes"] <= over_ndn["pit_bytes_peak"]


@pytest.mark.spark
@pytest.mark.parametrize("layering", ["plain-poll", "poll"])
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
    capture = compared.directory / "plain-poll" / "capture.pcapng"
    seen = Counter(packet.direction for packet in pcapng_oracle.read(capture))
    load = pq.read_table(compared.directory / "tables" / "link_load.parquet").to_pylist()
    lost = sum(row["lost"] for row in load if row["layering"] == "plain-poll")
    assert lost == seen[Direction.OUT] - seen[Direction.IN] > 0


@pytest.mark.spark
def test_its_page_has_no_pit_and_no_journey(compared, tmp_path):
    both = compared.report.read_text(encoding="utf-8")
    assert "State over time" in both
    assert "State entries, mean of a node" in both
    assert "PIT entries, mean of a node" not in both
    assert "Lifetime of " in both
    assert "plain-poll: IPv4 along static routes; all others: best-route" in both
    alone = emulate(tmp_path / "run", "line", items=5, layerings=("plain-poll",))
    page = analyze(alone.directory).read_text(encoding="utf-8")
    assert "State over time" in page
    assert "Lifetime of " not in page
    assert "journey-layering" not in page
    assert "best-route" not in page


LOSSY = """
title = "Polls over links that lose, double and let overtake"
layerings = ["plain-poll"]
seed = 1
settle_ms = 4000
publishers = ["p1", "p2"]
subscribers = ["s1", "s2"]

[topology]
links = [
    { a = "p1", b = "r1" },
    { a = "p2", b = "r2" },
    { a = "r1", b = "r2", bw_mbit = 0.5, max_queue_size = 6 },
    { a = "r1", b = "s1" },
    { a = "r2", b = "s2" },
]

[topology.link]
bw_mbit = 10.0
delay_ms = 5.0
jitter_ms = 3.0
loss_percent = 4.0
duplicate_percent = 3.0

[workload]
items = 30
feeds = 2

[workload.schedule]
speed = 1500000.0
idle_limit_ms = 40.0

[parameters.plain-poll]
poll_ms = 150
"""


def sent_by_layer(capture):
    """Add up what interfaces have sent, by Scapy and byte for byte: headers, and bytes of streams that were
    sent over the same interface before."""
    layers, seen = Counter(), {}
    for packet in pcapng_oracle.read(capture):
        if packet.direction is not Direction.OUT:
            continue
        frame = Ether(packet.frame)
        ip, tcp = frame[IP], frame[TCP]
        data = bytes(tcp.payload)[: ip.len - ip.ihl * 4 - tcp.dataofs * 4]
        layers["ethernet"] += len(packet.frame) - ip.len
        layers["ip"] += ip.ihl * 4
        layers["tcp"] += tcp.dataofs * 4
        flow = (packet.interface.name, ip.src, tcp.sport, ip.dst, tcp.dport)
        if "S" in str(tcp.flags) and flow not in seen:
            seen[flow] = set()
        places = {tcp.seq + at & 0xFFFFFFFF for at in range(len(data))}
        layers["retransmitted"] += len(places & seen[flow])
        layers["new"] += len(places - seen[flow])
        seen[flow] |= places
    return layers


@pytest.fixture(scope="module", params=[1, 2, 3])
def lossy(request, plain_poll, spark, tmp_path_factory):
    directory = tmp_path_factory.mktemp("lossy")
    (directory / "lossy.toml").write_text(LOSSY.replace("seed = 1", f"seed = {request.param}"))
    run = emulate(directory / "run", str(directory / "lossy.toml"))
    analyze(run.directory)
    return run


def of_run(run, name):
    return pq.read_table(run.directory / "tables" / f"{name}.parquet").to_pylist()


@pytest.mark.spark
def test_layers_add_up_to_all_that_was_sent(lossy):
    capture = lossy.directory / "plain-poll" / "capture.pcapng"
    sent = sent_by_layer(capture)
    layers = {row["layer"]: row["bytes"] for row in of_run(lossy, "overhead") if row["bytes"]}
    own = ("payload", "plain-poll length", "plain-poll request", "unread")
    assert sum(layers.values()) == sum(sent.values())
    assert sum(layers.pop(layer, 0) for layer in own) == sent.pop("new")
    assert layers == sent
    assert layers["retransmitted"] > 0


@pytest.mark.spark
def test_what_it_takes_at_least_is_less_than_what_it_took(lossy):
    rows = of_run(lossy, "latency")
    assert rows
    assert all(0 < row["bound_ns"] <= row["latency_ns"] for row in rows)
    known = values(lossy, "plain-poll")
    assert known["wire_ratio"] > 1
    assert 0 < known["useful_share"] < 100
    assert known["bound_p50"] > 0


@pytest.mark.spark
def test_control_messages_are_requests_and_ends_on_every_link(lossy):
    messages = [row for row in of_run(lossy, "plain-poll") if row["direction"] == "out"]
    control = [row for row in messages if row["kind"] in ("request", "end")]
    carried = values(lossy, "plain-poll")["delivered"]
    assert values(lossy, "plain-poll")["control_per_item"] == pytest.approx(len(control) / carried)
    items = {(row["feed"], row["seq"]) for row in messages if row["kind"] == "data"}
    assert len(items) == values(lossy, "plain-poll")["published"]


@pytest.mark.spark
def test_connections_are_those_that_subscribers_opened(lossy):
    rows = of_run(lossy, "connections")
    opened = [row for row in rows if row["direction"] == "out"]
    accepted = [row for row in rows if row["direction"] == "in"]
    assert {row["node"] for row in opened} == {"s1", "s2"}
    assert {row["node"] for row in accepted} == {"p1", "p2"}
    complete = [row for row in opened if row["handshake_ns"] is not None]
    assert values(lossy, "plain-poll")["connections"] == len(complete)
    # Two links of 5 ms less 3 ms of jitter, there and back.
    assert min(row["handshake_ns"] for row in complete) >= 4 * 2_000_000
    received = {row["src_port"]: row["received_bytes"] for row in opened if row["ended"] == "fin"}
    for row in accepted:
        if row["ended"] == "fin" and row["src_port"] in received:
            assert row["sent_bytes"] == received[row["src_port"]]
    assert sum(row["sent_again"] for row in rows) > 0


@pytest.mark.spark
def test_hops_of_items_are_told(lossy):
    hops = {(row["sender"], row["receiver"]): row["hops"] for row in of_run(lossy, "hop_delays")}
    assert hops[("p1", "r1")] > 0
    assert hops[("r1", "s1")] > 0


TSHARK = {
    "src_port": "tcp.srcport",
    "dst_port": "tcp.dstport",
    "ip_bytes": "ip.hdr_len",
    "udp_bytes": "tcp.hdr_len",
    "carried_bytes": "tcp.len",
    "tcp_seq": "tcp.seq_raw",
    "tcp_ack": "tcp.ack_raw",
    "tcp_flags": "tcp.flags",
}


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("port", ["8010", "9999"])
def test_segments_are_as_tshark_has_them(lossy, tmp_path, port):
    """Those of a known port, which are decoded one by one, and of an unknown one, all at once."""
    capture = tmp_path / "capture.pcapng"
    octets = (lossy.directory / "plain-poll" / "capture.pcapng").read_bytes()
    known = (8010).to_bytes(2)
    capture.write_bytes(octets if port == "8010" else octets.replace(known, int(port).to_bytes(2)))
    fields = [word for name in ("ip.src", "ip.dst", *TSHARK.values()) for word in ("-e", name)]
    command = ["tshark", "-n", "-r", capture, "-T", "fields", *fields]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = [line.split("\t") for line in done.stdout.splitlines()]
    rows = [
        row
        for piece in cut(capture)
        for batch in read_packets(Reading("x", piece), ReadStatistics())
        for row in batch.to_pylist()
    ]
    ours = [[row["src"], row["dst"], *(row[name] for name in TSHARK)] for row in rows]
    assert ours == [[src, dst, *(int(each, 0) for each in rest)] for src, dst, *rest in told]
    protocol, kind = ("plain-poll", "segment") if port == "8010" else ("tcp", "other")
    assert {(row["protocol"], row["kind"], row["transport"]) for row in rows} == {(protocol, kind, "tcp")}


@pytest.mark.spark
def test_layers_of_ndn_over_tcp_add_up_too(spark, tmp_path):
    ip = Ether(src="02:00:00:00:00:0a", dst="02:00:00:00:00:0b") / IP(src="10.0.0.1", dst="10.0.0.2")
    packets = [make_data(from_uri(f"/t/seg={number}"), b"z" * 1000) for number in range(5)]
    stream = b"".join(packets) + b"no packet"
    parts = [(at, stream[at : at + 700]) for at in (0, 700, 0, 1400, 2100, 2800, 3500, 4200, 4900)]
    frames = [ip / TCP(sport=6363, dport=9, flags="S", seq=99)]
    frames += [ip / TCP(sport=6363, dport=9, flags="A", seq=100 + at) / Raw(part) for at, part in parts]
    wrpcap(str(tmp_path / "a-eth0.pcap"), frames)
    choices = AnalysisOptions(
        "auto", NDN_PORTS, (("", "10.0.0.1"),), packets_only=False, engine="sail", master=None
    )
    capture = Capture("x", tmp_path / "a-eth0.pcap", "a-eth0", is_named=True)
    analyse([capture], tmp_path / "out", choices)
    rows = pq.read_table(tmp_path / "out" / "overhead").to_pylist()
    layers = {row["layer"]: row["bytes"] for row in rows if row["bytes"]}
    assert sum(layers.values()) == sum(map(len, frames))
    assert layers == {
        "ethernet": 14 * len(frames),
        "ip": 20 * len(frames),
        "tcp": 20 * len(frames),
        "retransmitted": 700,
        "data header": sum(map(len, packets)) - 5000,
        "payload": 5000,
        "other": len(b"no packet"),
    }
