"""What the commands say of layerings over TCP."""

import json
import re
from collections import Counter

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from testbed.cli.main import feednet
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.scenario import workload
from testbed.scenario.reader import load


def said(*arguments):
    result = CliRunner().invoke(feednet, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output.splitlines()


@pytest.fixture(scope="module")
def capture(plain_poll, tmp_path_factory):
    directory = tmp_path_factory.mktemp("polls") / "run"
    chosen = load("line", layerings=("plain-poll",), items=6)
    running.run(chosen, workload.load(chosen), EMULATED, directory)
    return directory / "plain-poll" / "capture.pcapng"


def test_analyze_counts_messages_and_connections(capture, tmp_path):
    lines = said("analyze", "--packets-only", capture, "--out", tmp_path / "out")
    frames = int(re.fullmatch(r"capture: (\d+) frames", lines[0])[1])
    assert lines[1] == f"  packets  {frames} segment"
    assert lines[2] == f"  frames of plain-poll {frames}"
    counted = re.fullmatch(r"  messages of plain-poll: 6 data, (\d+) end, (\d+) request", lines[3])
    assert 0 < int(counted[1]) <= int(counted[2])
    connections = int(re.fullmatch(r"  TCP connections: (\d+)", lines[4])[1])
    assert connections >= int(counted[2])
    (summary,) = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["connections"] == connections
    assert summary["protocols"] == {"plain-poll": frames}
    assert summary["messages"]["plain-poll"]["data"] == 6
    items = pq.read_table(tmp_path / "out" / "plain-poll").to_pylist()
    places = Counter(row["interface"] for row in items if row["kind"] == "data")
    assert places["s1-eth0"] == places["pub-eth0"] == 6
    assert len(pq.read_table(tmp_path / "out" / "connections")) == 2 * connections


def test_dissect_tells_what_a_segment_completes(capture):
    lines = said("dissect", capture)
    told = [line for line in lines if "s1-eth0  in" in line and "message of a feed" in line]
    numbers = [int(each) for line in told for each in re.findall(r"message of a feed \S+ (\d+) ", line)]
    assert sorted(set(numbers)) == [1, 2, 3, 4, 5, 6]
    assert any("plain-poll request /ssb/logs/" in line and "after 0" in line for line in lines)
    assert any(re.search(r"plain-poll \d+ bytes$", line) for line in lines)  # sent again
