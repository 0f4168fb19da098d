"""A whole run, made by hand: its tables, its report, and what is wrong with a run that is not whole."""

import json
import shutil
from html.parser import HTMLParser

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from handmade import FEED, INTERFACES, NAME_LENGTH, PAYLOADS, STORIES, seal

from analysis.columns.values import SLICES
from analysis.errors import AnalysisError
from analysis.pipelines import run as pipeline
from analysis.pipelines.run import analyze
from base.units import MS


@pytest.fixture(scope="module")
def analyzed(spark, handmade_run):
    told = []
    report = analyze(handmade_run, progress=told.append, all_tables=True)
    assert report == handmade_run / "report.html"
    assert len(told) >= 5
    return handmade_run


@pytest.mark.spark
class TestTables:
    def test_every_table_is_there(self, analyzed):
        for layering in STORIES:
            for name in ("packets", "messages", "items", "pit_intervals", "pit_occupancy", "latency"):
                table = pq.read_table(analyzed / "tables" / f"{name}.parquet")
                assert layering in table["layering"].to_pylist()

    def test_the_packets_tell_the_truth(self, analyzed):
        truth = pq.read_table(analyzed / "tables" / "pit_truth.parquet").to_pylist()
        assert len(truth) == 2 * 3 * 100
        assert [row for row in truth if row["derived_entries"] != row["counted_entries"]] == []
        assert [row for row in truth if row["derived_bytes"] != row["counted_bytes"]] == []
        most = {x: max(r["counted_bytes"] for r in truth if r["layering"] == x) for x in STORIES}
        assert most == {"poll": NAME_LENGTH + 32, "lli": len(FEED) + 56}

    def test_the_heat_is_the_mean_over_the_time_of_a_cell(self, analyzed):
        heat = pq.read_table(analyzed / "tables" / "pit_heat.parquet").to_pylist()
        runs = json.loads((analyzed / "manifest.json").read_text())["runs"]
        held = [(x, entry) for x in STORIES for entry in STORIES[x]().held]
        assert len(heat) > 200
        for row in heat:
            run = runs[row["layering"]]
            begin, end = (
                run["start_ns"] + place * (run["end_ns"] - run["start_ns"]) // SLICES
                for place in (row["slice"], row["slice"] + 1)
            )
            there = [
                max(0, min(end, entry.closed) - max(begin, entry.opened))
                for x, entry in held
                if (x, entry.node) == (row["layering"], row["node"])
            ]
            assert row["entries"] == pytest.approx(sum(there) / (end - begin)), row

    def test_state_over_time_does_not_depend_on_when_nodes_are_sampled(self, analyzed, tmp_path, monkeypatch):
        shutil.copytree(analyzed, tmp_path / "run", ignore=shutil.ignore_patterns("tables", "report.html"))
        read = pipeline._read_lines

        def sampled(cases, schema, *others):
            """Of the counters, every third sample of a node, at no moment of two nodes."""
            table = read(cases, schema, *others)
            if schema is not pipeline._COUNTERS:
                return table
            rows = table.to_pylist()
            kept = [(row["time"] // (5 * MS) + "prs".index(row["node"])) % 3 == 0 for row in rows]
            return table.filter(pa.array(kept))

        monkeypatch.setattr(pipeline, "_read_lines", sampled)
        analyze(tmp_path / "run")
        assert len(pq.read_table(tmp_path / "run" / "tables" / "pit_truth.parquet")) == 2 * 100
        for name in ("in_flight", "pit_heat"):
            found, wanted = (
                pq.read_table(run / "tables" / f"{name}.parquet") for run in (tmp_path / "run", analyzed)
            )
            assert found.to_pylist() == wanted.to_pylist()

    def test_the_comparison(self, analyzed):
        rows = pq.read_table(analyzed / "tables" / "comparison.parquet").to_pylist()
        got = {(row["metric"], row["layering"]): row["value"] for row in rows}
        assert {got["delivered_share", x] for x in STORIES} == {100}
        # Items 1 and 2 take two hops of 10 ms; item 3 of poll is asked for 30 ms late, over two hops.
        assert got["latency_max", "lli"] == pytest.approx(20)
        assert got["latency_max", "poll"] == pytest.approx(30 + 20 + 20)
        assert got["interests_per_item", "poll"] == 1
        assert got["interests_per_item", "lli"] == pytest.approx(1 / 3)
        assert got["frames_per_item", "poll"] == pytest.approx((6 + 8) / 3)
        assert got["frames_per_item", "lli"] == pytest.approx((2 + 8) / 3)
        assert got["latency_ratio_p50", "lli"] == 1
        assert got["first_item_p50", "lli"] == pytest.approx(20)
        # Nothing is delivered between the break at 150 ms and item 2; a gap is counted from its publication.
        assert got["recovery_max", "lli"] == pytest.approx(20)
        assert got["recovery_max", "poll"] == pytest.approx(70)
        assert {got["twice", x] for x in STORIES} == {got["out_of_order", x] for x in STORIES} == {0}
        assert {got["repeated_share", x] for x in STORIES} == {0}
        assert got["interests_per_link", "lli"] == pytest.approx(1 / 3)
        assert got["interests_per_window", "lli"] == pytest.approx(1)
        assert got["interests_per_window", "poll"] is None
        assert got["pit_entries_per_feed", "lli"] == 1
        sent = pq.read_table(analyzed / "tables" / "packets.parquet").to_pylist()
        data = [row for row in sent if row["direction"] == "out" and row["kind"] in ("data", "fragment")]
        for layering in STORIES:
            needed = sum(row["frame_bytes"] for row in data if row["layering"] == layering)
            assert got["bound_bytes_per_item", layering] == pytest.approx(needed / 3)
        assert got["pit_entries_peak", "poll"] == 1
        # Items are published from 100 to 300 ms.
        held = {
            layering: sum(
                max(min(h.closed, 300 * MS) - max(h.opened, 100 * MS), 0) for h in STORIES[layering]().held
            )
            / (200 * MS)
            / 3
            for layering in STORIES
        }
        for layering in STORIES:
            assert got["pit_entries_mean", layering] == pytest.approx(held[layering])

    def test_bytes_on_the_wire_add_up(self, analyzed):
        overhead = pq.read_table(analyzed / "tables" / "overhead.parquet").to_pylist()
        every = pq.read_table(analyzed / "tables" / "packets.parquet").to_pylist()
        packets = [row for row in every if row["layering"] == "lli"]
        sent = [row for row in packets if row["direction"] == "out"]
        lli = {row["layer"]: row["bytes"] for row in overhead if row["layering"] == "lli"}
        assert sum(lli.values()) == sum(row["frame_bytes"] for row in sent)
        assert lli["payload"] == 2 * sum(PAYLOADS)
        assert lli["ethernet"] == 14 * len(sent)
        assert lli["other"] == 0
        assert {row["interface"] for row in packets} == set(INTERFACES)


class Page(HTMLParser):
    """What a page loads, and the ids in it."""

    def __init__(self, text):
        super().__init__()
        self.loads = []
        self.ids = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.loads += [attributes[key] for key in ("src", "href", "data", "srcset") if key in attributes]
        if "id" in attributes:
            self.ids.add(attributes["id"])


@pytest.mark.spark
class TestReport:
    def test_it_is_self_contained_and_shows_every_plot(self, analyzed):
        text = (analyzed / "report.html").read_text(encoding="utf-8")
        page = Page(text)
        assert [address for address in page.loads if not address.startswith("#")] == ["player.html"]  # a link
        style = text[text.index("<style>") : text.index("</style>")]
        assert "url(" not in style
        assert "@import" not in style
        wanted = {
            "state",
            "state-heat",
            "in-flight",
            "pit-lifetimes",
            "outcomes",
            "latency-cdf",
            "latency-boxes",
            "first-item-cdf",
        }
        wanted |= {"packets", "wire-bytes", "wire-frames", "network", "journey"}
        assert wanted <= page.ids

    def test_tables_that_it_does_not_show_are_made_on_request(self, analyzed, tmp_path):
        copy = tmp_path / "run"
        shutil.copytree(analyzed, copy, ignore=shutil.ignore_patterns("tables", "report.html"))
        report = analyze(copy)
        made, every = ({path.stem for path in (run / "tables").iterdir()} for run in (copy, analyzed))
        assert every - made == {"transactions", "feed_progress", "events", "pit_intervals", "pit_occupancy"}
        assert report.read_bytes() == (analyzed / "report.html").read_bytes()

    def test_again_is_the_same(self, analyzed):
        before = (analyzed / "report.html").read_bytes()
        analyze(analyzed, all_tables=True)
        assert (analyzed / "report.html").read_bytes() == before


class TestBadRuns:
    """What can be found without Spark is found before it starts."""

    @pytest.fixture
    def run(self, handmade_run, tmp_path):
        copy = tmp_path / "run"
        shutil.copytree(handmade_run, copy, ignore=shutil.ignore_patterns("tables", "report.html"))
        return copy

    def complaint(self, run):
        with pytest.raises(AnalysisError) as error:
            analyze(run)
        assert "\n" not in str(error.value)
        assert not (run / "report.html").exists()
        return str(error.value)

    def test_no_manifest(self, tmp_path):
        assert self.complaint(tmp_path) == f"{tmp_path}/manifest.json: missing: not a run directory"

    def test_a_manifest_that_is_not_json(self, run):
        (run / "manifest.json").write_text('{"feednet": ')
        assert f"{run}/manifest.json: Invalid JSON" in self.complaint(run)

    def test_a_manifest_with_a_bad_value(self, run):
        text = (run / "manifest.json").read_text()
        (run / "manifest.json").write_text(text.replace('"items": 3', '"items": "three"'))
        assert f"{run}/manifest.json: workload.items: Input should be" in self.complaint(run)

    def test_a_run_of_an_older_feednet(self, run):
        manifest = json.loads((run / "manifest.json").read_text())
        del manifest["format"]
        (run / "manifest.json").write_text(json.dumps(manifest))
        assert self.complaint(run) == (
            f"{run}/manifest.json: of an older feednet, and no longer read: run it again"
        )

    def test_a_run_of_a_newer_feednet(self, run):
        manifest = json.loads((run / "manifest.json").read_text())
        (run / "manifest.json").write_text(json.dumps(manifest | {"feednet": "9.0.0", "format": 3}))
        assert self.complaint(run) == (
            f"{run}/manifest.json: of a newer feednet, 9.0.0 (format 3, and this one reads 2): analyse it"
            " with that one"
        )

    def test_a_layering_without_a_run(self, run):
        manifest = json.loads((run / "manifest.json").read_text())
        del manifest["runs"]["lli"]
        (run / "manifest.json").write_text(json.dumps(manifest))
        assert "runs: nothing about layering 'lli'" in self.complaint(run)

    FILES = ("scenario.json", "feed.jsonl", "lli/capture.pcapng", "lli/events.jsonl", "lli/counters.jsonl")

    @pytest.mark.parametrize("name", FILES)
    def test_a_missing_file(self, run, name):
        (run / name).unlink()
        assert self.complaint(run).startswith(f"{run}/{name}: missing: ")

    @pytest.mark.parametrize("name", FILES[2:])
    def test_a_file_that_is_cut_off(self, run, name):
        path = run / name
        size = path.stat().st_size
        path.write_bytes(path.read_bytes()[: -size // 3])
        assert self.complaint(run) == (
            f"{path}: {path.stat().st_size} bytes, and not the {size} of when the run ended: copy the run"
            " again, whole, or run it again"
        )

    def test_a_file_of_another_run(self, run):
        path = run / "lli" / "events.jsonl"
        path.write_text(path.read_text().replace('"time": 120', '"time": 130'))
        assert self.complaint(run) == (
            f"{path}: not what it was when the run ended (its SHA-256 is another): copy the run again, whole,"
            " or run it again"
        )

    def test_a_file_that_the_manifest_does_not_know(self, run):
        manifest = json.loads((run / "manifest.json").read_text())
        del manifest["files"]["lli/events.jsonl"]
        (run / "manifest.json").write_text(json.dumps(manifest))
        assert self.complaint(run) == f"{run}/manifest.json: files: nothing about lli/events.jsonl"

    def test_a_capture_that_was_written_in_part(self, run):
        path = run / "lli" / "capture.pcapng"
        path.write_bytes(path.read_bytes()[:-10])
        seal(run)
        assert f"{path}: byte " in self.complaint(run)

    def test_a_capture_that_is_none(self, run):
        path = run / "lli" / "capture.pcapng"
        path.write_bytes(b"hello, world")
        seal(run)
        assert self.complaint(run).startswith(f"{path}: byte 0: ")

    @pytest.mark.spark
    def test_a_packet_that_does_not_fit_its_block(self, spark, run):
        path = run / "lli" / "capture.pcapng"
        content = bytearray(path.read_bytes())
        at = content.rindex(b"\x06\x00\x00\x00", 0, content.rindex(b"\x06\x00\x00\x00") - 200)
        while int.from_bytes(content[at + 4 : at + 8], "little") > 5000:
            at = content.rindex(b"\x06\x00\x00\x00", 0, at)
        content[at + 20 : at + 24] = (60000).to_bytes(4, "little")
        path.write_bytes(content)
        seal(run)
        assert f"{path}: byte {at}: a packet does not fit its block" == self.complaint(run)

    def test_a_line_that_is_not_json(self, run):
        path = run / "poll" / "counters.jsonl"
        path.write_text(path.read_text() + "{nonsense\n")
        seal(run)
        assert self.complaint(run).startswith(f"{path}: ")
