"""Every table of captures that feednet did not make: columns, contents, and other programs that read them."""

import json
import re

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from exchange import IP4, A, B, answer, question, set_clock_back, table, udp, write, write_pcapng
from pyspark.errors import PySparkException
from scapy.layers.inet import UDP
from scapy.packet import Raw

from analysis.report.words.numbers import NARROW_SPACE
from analysis.spark.parquet import NO_VALUE
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest
from testbed.cli.main import feednet
from testbed.errors import UserError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def analyzed(spark, tmp_path_factory):
    """A run of two captures, and one without NDN, analysed."""
    home = tmp_path_factory.mktemp("analyze")
    frames = [question(A, B, "/b"), question(A, B, "/b", 2), answer(B, A, "/b"), question(A, B, "/c")]
    write(home / "exp" / "a-eth0.pcap", *frames)
    write(home / "exp" / "b-eth0.pcap", *frames)
    write(home / "nothing.pcap", IP4 / UDP(sport=1, dport=2) / Raw(b"hello"))
    local = ("--local", f"a={A}", "--local", f"b={B}")
    given = ["analyze", home / "exp", home / "nothing.pcap", *local, "--out", home / "out"]
    said = CliRunner().invoke(feednet, list(map(str, given)), catch_exceptions=False)
    return home / "out", said.output


class TestAllTables:
    def test_every_table_has_the_documented_columns(self, analyzed):
        from analysis.spark.parquet import BY
        from analysis.tables.schema import TABLES

        out, _ = analyzed
        assert {each.name for each in out.iterdir()} == {
            *(each.name for each in TABLES),
            "summary.json",
            "report.html",
        }
        for each in TABLES:
            by = BY if each.name == "packets" else BY[:1]
            kinds = {field.name: field.type for field in each.arrow if field.name not in by}
            files = list((out / each.name).rglob("*.parquet"))
            assert files
            # A run without rows has a file without rows.
            assert {path.relative_to(out / each.name).parts[0] for path in files} == {
                "layering=exp",
                "layering=nothing",
            }
            # Some programs read a directory only if there is nothing else in it.
            assert sorted(files) == sorted(path for path in (out / each.name).rglob("*") if path.is_file())
            for path in files:
                assert {field.name: field.type for field in pq.read_schema(path)} == kinds, path
                directories = [
                    part.partition("=")[0] for part in path.relative_to(out / each.name).parts[:-1]
                ]
                assert directories == list(by)

    def test_what_they_say(self, analyzed):
        out, _ = analyzed
        known = {
            (row["node"], row["direction"], row["name"]): (row["interests"], row["outcome"], row["rtt_ns"])
            for row in table(out, "transactions")
        }
        assert known == {
            ("a", "out", "/b"): (2, "data", 2_000_000),
            ("b", "in", "/b"): (2, "data", 2_000_000),
            ("a", "out", "/c"): (1, "none", None),
            ("b", "in", "/c"): (1, "none", None),
        }
        assert [(row["node"], row["name"]) for row in table(out, "latency")] == [("a", "/b")]
        sent = sum(row["frame_bytes"] for row in table(out) if row["direction"] in ("out", None))
        assert sum(row["bytes"] for row in table(out, "overhead")) == sent
        assert {row["event"] for row in table(out, "events")} == {"retransmission"}
        assert {row["name"] for row in table(out, "pit_intervals")} == {"/b", "/c"}

    def test_terminal_summary_and_page_tell_the_same_figures(self, analyzed):
        out, said = analyzed
        # An Interest that both its sender and its receiver captured is one.
        assert (
            "exp: 2 Interests, 50 % without an answer, half of all answers within 2 ms, PIT of at most"
            " 2 entries\n" in said
        )
        assert "nothing: 0 Interests, no PIT entry\n" in said
        page = (out / "report.html").read_text(encoding="utf-8").replace(NARROW_SPACE, " ")
        assert "half of all answers came within 2 ms (n = 1)" in re.sub(r"<[^>]*>", "", page)
        assert "50 % in exp of the Interests got no answer" in re.sub(r"<[^>]*>", "", page)
        exp, nothing = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        assert {name: exp[name] for name in ("requests", "data", "nacked", "unanswered", "pit_peak")} == {
            "requests": 2,
            "data": 1,
            "nacked": 0,
            "unanswered": 1,
            "pit_peak": 2,
        }
        assert exp["median_rtt_ns"] == pytest.approx(2_000_000, rel=0.01)
        assert (nothing["requests"], nothing["median_rtt_ns"]) == (0, None)

    def test_pandas_and_duckdb_read_them(self, analyzed):
        duckdb = pytest.importorskip("duckdb")
        pandas = pytest.importorskip("pandas")
        out, _ = analyzed
        assert pandas.read_parquet(out / "transactions")["outcome"].value_counts().to_dict() == {
            "data": 2,
            "none": 2,
        }
        assert duckdb.sql(
            "SELECT kind, count(*) FROM"
            f" read_parquet('{out}/packets/**/*.parquet', hive_partitioning = true, union_by_name = true)"
            " WHERE layering = 'exp' GROUP BY kind ORDER BY kind"
        ).fetchall() == [("data", 2), ("interest", 6)]


def run(*arguments):
    return CliRunner().invoke(feednet, ["analyze", *map(str, arguments)])


def test_a_capture_without_frames_has_tables_and_a_page(spark, tmp_path):
    from analysis.tables.schema import TABLES

    empty = write(tmp_path / "empty.pcap")
    said = run(empty, "--out", tmp_path / "out")
    assert said.exit_code == 0, said.output
    assert said.output.startswith("empty: 0 frames\n")
    assert "empty: 0 Interests, no PIT entry\n" in said.output
    assert [table(tmp_path / "out", each.name) for each in TABLES] == [[]] * len(TABLES)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Nothing in these captures is NDN" in page
    assert "there is no frame in it" in page
    # Beside another that has some.
    full = write(tmp_path / "full.pcap", question(A, B, "/b"), answer(B, A, "/b"))
    said = run(empty, full, "--out", tmp_path / "both")
    assert said.exit_code == 0, said.output
    assert "empty: there is no frame in it" in (tmp_path / "both" / "report.html").read_text(encoding="utf-8")


def test_runs_and_nodes_of_any_name(spark, tmp_path):
    nodes = ["m\N{LATIN SMALL LETTER U WITH DIAERESIS}ller", "\N{CJK UNIFIED IDEOGRAPH-65E5}", "a b/=c"]
    frames = [question(A, B, "/b"), answer(B, A, "/b")]
    path = write_pcapng(tmp_path / "x.pcapng", {f"{node}-eth0": frames for node in [*nodes, NO_VALUE]})
    run_name = "z\N{LATIN SMALL LETTER U WITH DIAERESIS}rich, %C3"
    said = run(f"{run_name}={path}", "--out", tmp_path / "out")
    assert said.exit_code == 0, said.output
    assert f"\n{run_name}: 4 Interests, 0 % without an answer" in said.output
    for name, more in (("transactions", set()), ("pit_intervals", set()), ("pit_occupancy", {"*"})):
        rows = table(tmp_path / "out", name)
        assert {(row["layering"], row["node"]) for row in rows} == {
            (run_name, node) for node in {*nodes, NO_VALUE, *more}
        }, name
    with pytest.raises(UserError, match="stands for none in tables: name it, RUN="):
        CliRunner().invoke(feednet, ["analyze", f"{NO_VALUE}={path}"], catch_exceptions=False)


def test_time_stamps_that_cannot_be(spark, tmp_path):
    start = 1_700_000_000_000_000_000
    frames = [udp(A, B, make_interest(from_uri("/long"), nonce=1, lifetime_ms=(1 << 64) - 1))]
    frames += [question(A, B, "/b"), answer(B, A, "/b"), question(A, B, "/c"), answer(B, A, "/c")]
    times = [(1 << 64) - 1, start, start + 1_000_000, (1 << 63) - 1, start + 2_000_000]
    path = write_pcapng(tmp_path / "a.pcapng", {"a-eth0": frames}, times)
    said = run(path, "--out", tmp_path / "out")
    assert said.exit_code == 0, said.output
    assert "2 time stamp out of range" in said.output
    assert "half of all answers within 1 ms" in said.output
    rows = table(tmp_path / "out")
    assert [row["time"] - start for row in rows] == [0, 0, 1_000_000, 1_000_000, 2_000_000]
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "sail"])
def test_negative_time_stamps(spark, tmp_path, engine):
    """A clock may begin before 1970, and all that it says with it: such a frame has the time of the frame
    before it."""
    start, ms = 1_700_000_000_000_000_000, 1_000_000
    frames = {"a-eth0": [question(A, B, "/b"), answer(B, A, "/b")], "a-eth1": [question(A, B, "/c")]}
    some = write_pcapng(tmp_path / "a.pcapng", frames)
    set_clock_back(some, 1, 1_800_000_000)
    # No stamp is right: all frames are of one moment, and there is a page all the same.
    none = write_pcapng(tmp_path / "b.pcapng", {"b-eth0": frames["a-eth0"]})
    set_clock_back(none, 0, 1_800_000_000)
    said = run(f"some={some}", f"none={none}", "--out", tmp_path / "out", "--engine", engine)
    assert said.exit_code == 0, said.output
    assert [line for line in said.output.splitlines() if "time stamp out of range" in line] == [
        "  problems 1 time stamp out of range",
        "  problems 2 time stamp out of range",
    ]
    rows = sorted(table(tmp_path / "out"), key=lambda row: row["frame"])
    assert [row["time"] - start for row in rows if row["layering"] == "some"] == [0, ms, ms]
    assert {row["time"] for row in rows if row["layering"] == "none"} == {0}
    for name, outcome in (("transactions", "data"), ("pit_intervals", "satisfied")):
        ends = sorted((row["layering"], row["outcome"]) for row in table(tmp_path / "out", name))
        assert [end for end in ends if end[1] == outcome] == [("none", outcome), ("some", outcome)]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "time stamp out of range" in page


@pytest.mark.parametrize("name", ["out", "12:30", "[ab]{c}*"])
def test_a_relative_directory_of_any_name(spark, tmp_path, monkeypatch, name):
    # Spark's own working directory is another one, as those of executors are.
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a-eth0.pcap", question(A, B, "/b"), answer(B, A, "/b"))
    said = run("a-eth0.pcap", "--out", name)
    assert said.exit_code == 0, said.output
    assert [row["outcome"] for row in table(tmp_path / name, "pit_intervals")] == ["satisfied"]
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([name, "a-eth0.pcap"])


def test_tables_are_kept_if_there_is_no_page(spark, tmp_path, monkeypatch):
    def fail(*_):
        raise PySparkException("out of memory\nand more")

    monkeypatch.setattr("analysis.pipelines.capture_page.gather", fail)
    path, out = write(tmp_path / "a-eth0.pcap", question(A, B, "/b")), tmp_path / "out"
    said = run(path, "--out", out)
    assert said.exit_code == 1
    assert (
        str(said.exception) == f"the tables are in {out}, but the report cannot be made: {out}: out of memory"
    )
    assert len(table(out, "transactions")) == 1
    assert not (out / "report.html").exists()


def test_a_run_has_a_file_of_a_table_whatever_it_is_called(tmp_path):
    from analysis.spark.parquet import BY, at_least_empty, directories
    from analysis.tables.schema import LATENCY

    # As Spark escapes it: less than analysis.spark.parquet does.
    there = tmp_path / "layering=a+b, \N{LATIN SMALL LETTER U WITH DIAERESIS}" / "part-0.parquet"
    there.parent.mkdir()
    there.touch()
    runs = ["a+b, \N{LATIN SMALL LETTER U WITH DIAERESIS}", "c/d=e", ""]
    at_least_empty(tmp_path, LATENCY.arrow, runs, BY[:1])
    made = {path: directories(path.relative_to(tmp_path))["layering"] for path in tmp_path.rglob("*.parquet")}
    assert sorted(run or "" for run in made.values()) == sorted(runs)
    assert all(not len(pq.read_table(path, partitioning=None)) for path in made.keys() - {there})
    assert {len(path.relative_to(tmp_path).parts) for path in made} == {2}
