"""`feednet watch`: beside a run and beside a capture; what its page tells, what ends it, what it refuses."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Lock, Thread
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import urlopen

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from patience import PATIENCE_S
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import PcapWriter

from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest
from testbed.bench.runs.decode import write_capture
from testbed.cli.main import MENDABLE, feednet
from testbed.errors import UserError
from testbed.scenario import reader as scenarios
from testbed.scenario import workload
from testbed.scenario.timeline import Timeline
from testbed.watch.loop import serve_to_the_end
from testbed.watch.page import LivePage, lag_text
from testbed.watch.server import served
from testbed.watch.target import find_target

ROOT = Path(__file__).parents[2]
FRAME = Ether(src="02:00:00:00:00:0a", dst="02:00:00:00:00:0b") / IP(src="10.0.0.1", dst="10.0.0.2")
FRAME = FRAME / UDP(sport=6363, dport=6363)


def command(*arguments):
    """Start the command line in a process group of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "FEEDNET_CACHE": ""}
    program = [sys.executable, "-m", "testbed.cli", *map(str, arguments)]
    return subprocess.Popen(
        program,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def watch(*arguments):
    done = CliRunner().invoke(feednet, ["watch", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def told(path):
    """Return what the script of news says."""
    text = path.read_text(encoding="utf-8")
    return json.loads(re.fullmatch(r"feednetLive\((.*)\);\n", text, re.DOTALL)[1])


def pit_peaks(spark, captures, directory):
    """Return the most entries and bytes of each node that had any, by capture, as the batch analysis finds
    them; of its stages only these."""
    from analysis.decode.reader import ReadStatistics, plain, read_packets
    from analysis.decode.reading import Reading
    from analysis.pit.windows.tables import write_pits
    from analysis.spark.engine import frame
    from analysis.tables.reassembly import reassemble
    from analysis.tables.schema import PACKETS
    from captures.formats.files import cut

    decoded = [
        plain(batch)
        for path in captures
        for piece in cut(path)
        for batch in read_packets(Reading(path.parent.name, piece, "interface"), ReadStatistics())
    ]
    none = spark.createDataFrame([], "layering string, interface string, time long")
    packets = reassemble(frame(spark, pa.Table.from_batches(decoded), PACKETS.spark), none)
    write_pits(packets, directory / "pit")
    found = {}
    rows = pq.read_table(directory / "pit" / "pit_occupancy").to_pylist()
    for row in rows:
        most = found.setdefault(row["layering"], {}).setdefault(row["node"], [0, 0])
        most[:] = max(most[0], row["entries"]), max(most[1], row["bytes"])
    return {name: {node: most for node, most in peaks.items() if most[0]} for name, peaks in found.items()}


@pytest.mark.spark
def test_beside_a_run_it_comes_to_what_the_whole_captures_say(tmp_path):
    """The run begins after the watcher, has links that go down, and becomes complete under its own name."""
    from analysis.spark.session import spark_session

    spark = spark_session(small=True)  # now, as a run in the emulator does not wait
    out = tmp_path / "runs" / "failover"
    out.parent.mkdir()
    options = ["--items", "60", "--layering", "lli", "--layering", "poll", "--net", "emulated", "--no-report"]
    run = command("run", "failover", *options, "--out", out)
    try:
        said = watch(out, "--every", 0.3)
    finally:
        assert run.wait(PATIENCE_S) == 0, run.stdout.read()
    assert re.search(
        r"watched   \d+ frames, [\d.]+ s; median [\d.]+, most [\d.]+ s over \d+ batch(es)?", said
    )
    page = out.with_name("failover.live.html")
    assert f"page      {page.as_uri()}" in said
    state = told(page.with_suffix(".js"))
    assert state["phase"] == "over"
    assert state["links"] == [{"text": "The report, once it is written", "href": "failover/report.html"}]

    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    expected = pit_peaks(
        spark, [out / capture["name"] / "capture.pcapng" for capture in state["captures"]], tmp_path
    )
    for capture in state["captures"]:
        name = capture["name"]
        assert capture["frames"] == manifest["runs"][name]["capture"]["frames"] > 0
        assert {node: peak[:2] for node, peak in capture["peaks"].items()} == expected[name]
    assert {capture["cells"][1] for capture in state["captures"]} == {"complete"}


@pytest.mark.spark
def test_beside_a_capture_until_no_more_comes(tmp_path):
    """There is a pause, of which Spark makes reports; it would have to be 10 s long if they were not asked
    for sooner."""
    from analysis.spark.session import spark_session

    conf = spark_session(small=True).conf
    conf.set("spark.sql.streaming.noDataProgressEventInterval", "200ms")
    path = tmp_path / "a-eth0.pcap"
    packets = [make_interest(from_uri("/a/1"), nonce=1), make_data(from_uri("/a/1"), b"x")] * 200

    def write():
        with PcapWriter(str(path), sync=True) as writer:
            for number, packet in enumerate(packets):
                frame = FRAME / Raw(packet)
                frame.time = 1_700_000_000 + number / 100
                writer.write(frame)
                if number in (100, 300):
                    time.sleep(1.5)

    thread = Thread(target=write)
    thread.start()
    watch(path, "--every", 0.3, "--idle", 10, "--page", tmp_path / "pages" / "live.html")
    thread.join()
    state = told(tmp_path / "pages" / "live.js")
    assert state["headline"] == "Ended, no more has come: 400 frames"
    (capture,) = state["captures"]
    assert (capture["name"], capture["frames"]) == ("a-eth0", 400)
    assert capture["cells"][1] == "ended"
    kinds = {trace["name"] for trace in capture["figures"]["packets"]["data"]}
    assert kinds == {"Interests", "Data"}
    news = tmp_path / "again.js"

    def shrink():
        while not (news.exists() and told(news)["captures"][0]["frames"] == 400):
            time.sleep(0.05)
        os.truncate(path, 100)

    thread = Thread(target=shrink)
    thread.start()
    with pytest.raises(MENDABLE) as error:
        watch(path, "--every", 0.3, "--page", tmp_path / "again.html")
    thread.join()
    assert re.fullmatch(rf"{path}: byte \d+: has become shorter than what was read of it", str(error.value))
    assert "has become shorter" in told(news)["headline"]


@pytest.mark.spark
def test_an_interrupt_leaves_the_last_page(tmp_path):
    path = tmp_path / "trace.pcap"
    with PcapWriter(str(path)) as writer:
        writer.write(FRAME / Raw(make_interest(from_uri("/a"), nonce=1)))
    script = tmp_path / "trace.pcap.live.js"

    def interrupt():
        while not (script.exists() and told(script)["phase"] == "running"):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = Thread(target=interrupt, daemon=True)
    thread.start()
    done = CliRunner().invoke(feednet, ["watch", str(path)], standalone_mode=False)
    thread.join()
    assert isinstance(done.exception, click.Abort)  # what testbed.cli.main.main makes status 130
    assert done.output.strip() == f"page      {script.with_suffix('.html').as_uri()}"
    assert told(script)["headline"] == "Ended, watching was interrupted: 1 frame"


@pytest.mark.spark
@pytest.mark.slow
def test_killed_and_started_again_it_tells_what_it_would_have_told(tmp_path):
    """kill -9 of Python and Java, twice, while batches go on; nothing is counted twice or left out, and there
    is no more to do for a third start when nothing was added."""
    whole, path, checkpoint = tmp_path / "whole" / "c.pcapng", tmp_path / "c.pcapng", tmp_path / "checkpoint"
    whole.parent.mkdir()
    write_capture(whole, 8_000)
    content = whole.read_bytes()
    script, written = tmp_path / "c.pcapng.live.js", 0
    arguments = ["watch", path, "--every", 0.1, "--checkpoint", checkpoint]

    def shown():
        state = told(script) if script.exists() else {"captures": [{"frames": 0}]}
        return state["captures"][0]["frames"]

    def grow(size):
        nonlocal written
        with path.open("ab") as file:
            written += file.write(content[written : written + size])

    for _ in range(2):
        script.unlink(missing_ok=True)
        process = command(*arguments)
        give_up, seen = time.monotonic() + PATIENCE_S, {0}
        grow(200_000)
        try:
            while len(seen) < 4:
                assert process.poll() is None, process.stdout.read()
                assert time.monotonic() < give_up
                if shown() not in seen:
                    seen.add(shown())
                    grow(300_000)
                time.sleep(0.05)
            time.sleep(0.1)  # a batch has begun
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        assert written < len(content)
    grow(len(content))
    again = []
    for _ in range(2):
        process = command(*arguments, "--idle", 3)
        said, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said
        again.append(told(script)["captures"])
    watch(whole, "--idle", 3)
    expected = told(whole.parent / script.name)["captures"]
    assert expected[0]["frames"] == 8_000
    assert again == [expected, expected]


def refused(*arguments):
    with pytest.raises(UserError) as error:
        watch(*arguments)
    return str(error.value)


def test_what_cannot_be_watched_is_refused_at_once(tmp_path):
    a, b = tmp_path / "a.pcap", tmp_path / "b"
    b.mkdir()
    a.write_bytes(gzip.compress(b"x" * 100))
    assert refused(a) == f"{a}: compressed: it cannot be read while it grows"
    assert refused("--master", "spark://127.0.0.1:1", b / "c.pcap").startswith(
        "--master: a cluster needs --checkpoint"
    )
    assert refused(b) == f"{b / 'scenario.json'}: missing: not the directory of a run"
    assert refused(a.with_name("c.pcap"), b) == f"{b}: a directory; watch one run, or captures"
    assert refused(b / "c.pcap", tmp_path / "c.pcapng").endswith("two captures would be c")
    assert refused(tmp_path / "no" / "c.pcap") == f"{tmp_path / 'no'}: no such directory"
    (b / "scenario.json").write_text("{}")
    assert refused(b) == f"{b / 'scenario.json'}: not what a run of this version writes: 'workload'"


def test_a_run_is_known_before_and_after_it_is_complete(tmp_path):
    partial, run = tmp_path / "x.partial", tmp_path / "x"
    target = find_target([run])
    assert not target.begin()
    partial.mkdir()
    (partial / "scenario.json").write_text('{"half')
    assert not target.begin()
    chosen = scenarios.load("failover")
    (partial / "scenario.json").write_text(chosen.model_dump_json(by_alias=True))
    assert target.begin()
    assert not target.is_complete
    assert list(target.captures) == list(chosen.layerings)
    assert target.captures["lli"] == [str(place / "lli" / "capture.pcapng") for place in (partial, run)]
    partial.rename(run)
    assert target.is_complete
    assert find_target([partial]).begin()  # by its old name, too


def test_breaks_are_those_of_the_scenario():
    from testbed.watch.target import _breaks

    chosen = scenarios.load("failover")
    found = list(_breaks(chosen))
    changes = Timeline.of(chosen, workload.load(chosen), 0).changes
    assert {each.time for each in found} <= {at for at, _ in changes}
    assert {each.event for each in found} == {
        change.event if change.restart is None else event
        for _, change in changes
        if change.restart is not None or change.is_signalled
        for event in ("restart", "peer-restart")
    }


def test_the_page_is_served_and_nothing_else(tmp_path):
    (tmp_path / "x.live.html").write_text("the page")
    (tmp_path / "x.live.js").write_text("the news")
    (tmp_path / "secret").write_text("no")
    page = SimpleNamespace(path=tmp_path / "x.live.html", script=tmp_path / "x.live.js", report=None)
    with served(page, 0) as url:
        assert urlopen(url).read() == b"the page"
        news = urlopen(f"{url}x.live.js?123")
        assert (news.read(), news.headers.get_content_type()) == (b"the news", "text/javascript")
        for path in ("secret", "../secret", "report.html"):
            with pytest.raises(HTTPError):
                urlopen(url + path)
    with served(page, None) as url:
        assert url == ""


def test_the_server_outlives_the_report(tmp_path):
    """A page that is opened when the run is over leads to its report, which comes later."""
    run = tmp_path / "x"
    run.mkdir()
    written = []

    class Ended(LivePage):
        def write_page(self):
            written.append(self.is_pending)

    query = SimpleNamespace(lock=Lock(), captures={})
    page = Ended(find_target([run]), query, tmp_path / "x.live.html", is_served=True)
    page.path.write_text("the page")
    with served(page, 0) as url:
        serving = Thread(target=serve_to_the_end, args=(page, 1.0, lambda: None))
        serving.start()
        with pytest.raises(HTTPError):
            urlopen(f"{url}x/report.html")
        time.sleep(0.3)
        (run / "report.html").write_text("the report")
        since = time.monotonic()
        serving.join(60)
        assert urlopen(f"{url}x/report.html").read() == b"the report"
    assert time.monotonic() - since >= 0.9  # --idle counts from the report
    assert written == [False]  # once more, as the report is there now
    assert not LivePage(find_target([run]), query, page.path).is_pending  # of a file nobody would be told

    def interrupted():
        raise KeyboardInterrupt

    serve_to_the_end(page, None, interrupted)  # ends as it should


def test_lags():
    assert lag_text([]) == ""
    assert lag_text([3.0, 1.0, 2.0]) == ", 2.0 s; median 2.0, most 3.0 s over 3 batches"
