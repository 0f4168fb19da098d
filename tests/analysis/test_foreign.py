"""Every table of captures that feednet did not make: columns, contents, and other programs that read them."""

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from exchange import IP4, A, B, answer, question, table, write
from scapy.layers.inet import UDP
from scapy.packet import Raw

from testbed.cli import feednet

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
        from analysis.schema import PARTITIONS
        from analysis.stages import TABLES

        out, _ = analyzed
        assert {each.name for each in out.iterdir()} == {
            *(each.name for each in TABLES),
            "summary.json",
            "report.html",
        }
        for each in TABLES:
            by = PARTITIONS if each.name == "packets" else ("run",)
            kinds = {field.name: field.type for field in each.arrow if field.name not in (*by, "layering")}
            files = list((out / each.name).rglob("*.parquet"))
            assert files
            # A run without rows has a file without rows.
            assert {path.relative_to(out / each.name).parts[0] for path in files} == {
                "run=exp",
                "run=nothing",
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
        out, said = analyzed
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
        assert (
            "exp: PIT of at most 2 entries, 4 Interests or LLIs, 50.0 % answered, median RTT 2.000 ms" in said
        )
        assert "nothing: PIT of at most 0 entries, 0 Interests or LLIs" in said

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
            " WHERE run = 'exp' GROUP BY kind ORDER BY kind"
        ).fetchall() == [("data", 2), ("interest", 6)]
