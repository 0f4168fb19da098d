"""Results, bars and the player in the kernel that notebooks run in, as its front end is told to show them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from patience import PATIENCE_S

from testbed.api import notebook
from testbed.api.results import Results
from testbed.errors import UserError

ROOT = Path(__file__).parents[2]

RUN = """
import asyncio
from feednet import Experiment
asyncio.get_running_loop()
results = Experiment(
    topology={"links": [{"a": "pub", "b": "r1"}, {"a": "r1", "b": "s1"}], "link": {"delay_ms": 5.0}},
    layerings=["poll", "lli"],
    workload={"items": 8},
    settle_ms=500,
).run("run", net="emulated")
results
"""
LATENCY = "Latency, publish or join to delivery, median"


class Kernel:
    """A kernel, and what it has told its front end."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client

    def run(self, cell: str) -> list[dict[str, Any]]:
        """Run a cell; return the messages with something to show, each as its type and content."""
        status, told = self._execute(cell)
        assert status == "ok", told
        return told

    def fail(self, cell: str) -> list[str]:
        """Run a cell that fails; return the lines that show its error."""
        status, told = self._execute(cell)
        assert status == "error", told
        lines: list[str] = told[-1]["traceback"]
        return lines

    def _execute(self, cell: str) -> tuple[str, list[dict[str, Any]]]:
        told: list[dict[str, Any]] = []

        def listen(message: dict[str, Any]) -> None:
            if message["msg_type"] not in ("status", "execute_input"):
                told.append({"type": message["msg_type"], **message["content"]})

        reply = self._client.execute_interactive(cell, output_hook=listen, timeout=PATIENCE_S)
        return reply["content"]["status"], told


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def kernel(place: Path) -> Iterator[Kernel]:
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "IPYTHONDIR": str(place / "ipython")}
    manager, client = start_new_kernel(startup_timeout=PATIENCE_S, cwd=str(place), env=environment)
    yield Kernel(client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def ran(kernel: Kernel) -> list[dict[str, Any]]:
    return kernel.run(RUN)


def html(told: dict[str, Any]) -> str:
    found: str = told["data"]["text/html"]
    return found


def test_bars_move_in_the_cell_that_runs_and_end_as_a_line(ran: list[dict[str, Any]]) -> None:
    begun, *moved, result = ran
    assert begun["type"] == "display_data"
    assert '<progress max="1" aria-label="poll"></progress>' in html(begun)
    assert {each["type"] for each in moved} == {"update_display_data"}
    own = {each["transient"]["display_id"] for each in [begun, *moved]}
    assert len(own) == 1
    shares = [re.findall(r"value=([\d.]+)", html(each)) for each in moved]
    assert ["1.000", "1.000"] in shares
    assert re.fullmatch(r"<div>poll, lli in \d+\.\d s</div>", html(moved[-1]))
    assert re.fullmatch(r"poll, lli in \d+\.\d s", moved[-1]["data"]["text/plain"])
    assert result["type"] == "execute_result"
    assert re.search(r"items delivered</th>\s*<td>8</td>\s*<td>8</td>", html(result))


def test_what_the_caller_listens_to_is_not_shown(kernel: Kernel, ran: list[dict[str, Any]]) -> None:
    cell = RUN.replace('"run", net', '"other", progress=print, advance=lambda *_: None, net')
    told = kernel.run(cell)
    assert [each["text"] for each in told if each["type"] == "stream"] == ["poll\nlli\n"]
    assert [html(each) for each in told if each["type"] == "update_display_data"] == []


def test_tables_in_words_with_units(kernel: Kernel, ran: list[dict[str, Any]]) -> None:
    *steps, shown = kernel.run("results.comparison().loc[['latency_p50']]")
    assert html(steps[0]).startswith('<div><progress max="1" aria-label="')
    assert re.fullmatch(r"<div>analysed in \d+\.\d s</div>", html(steps[-1]))
    assert re.search(rf"latency_p50</th>\s*<td>{LATENCY}</td>\s*<td>ms</td>\s*<td>[\d.]+</td>", html(shown))
    [shown] = kernel.run("results")
    assert re.search(rf"<th>{LATENCY}</th>\s*<td>ms</td>\s*<td>[\d.]+</td>", html(shown))
    assert "latency_p50" not in html(shown)


def test_the_player_is_in_the_cell(
    kernel: Kernel, ran: list[dict[str, Any]], tmp_path: Path, place: Path
) -> None:
    [shown] = kernel.run('results.player("lli", height=500)')
    frame = re.fullmatch(r'<iframe srcdoc="([^"]*)" (.*)></iframe>', html(shown), re.DOTALL)
    assert frame is not None
    assert 'width="100%" height="500"' in frame[2]
    page = unescape(frame[1])
    assert "report.html" not in page
    if CHROMIUM is None:
        pytest.skip("no Chromium here")
    browser = Browser(tmp_path)
    script = """
    await show(player.end / 2);
    await select({ layering: player.layerings[0], node: "r1" });
    return [player.layerings.map(({ name }) => name), text("panel")];
    """
    names, panel = browser.probe(page, script, width=900)
    assert browser.said == []
    assert names == ["lli"]
    assert "PIT in total" in panel


def test_a_player_of_what_has_not_run_is_refused(place: Path, ran: list[dict[str, Any]]) -> None:
    with pytest.raises(UserError, match=r"no layering 'x': it has poll, lli$"):
        Results(place / "run").player("x")


def test_tables_as_pandas_polars_and_arrow(
    place: Path, ran: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results(place / "run")
    arrow, pandas, polars = results.arrow("latency"), results.pandas("latency"), results.polars("latency")
    assert arrow.num_rows == len(pandas) == len(polars) == 16
    assert list(pandas) == arrow.column_names == polars.columns
    assert pandas.latency_ns.sum() == polars["latency_ns"].sum() > 0
    assert arrow.schema.field("latency_ns").metadata[b"unit"] == b"ns"
    assert arrow.schema.field("latency_ns").metadata[b"meaning"].startswith(b"between the two")
    assert pandas.attrs["units"]["payload_bytes"] == "bytes"
    assert results.pandas("latency_quantiles").attrs["units"]["latency_p50"] == "ms"
    assert results.packets("lli").attrs["units"]["frame_bytes"] == "bytes"
    assert results.events("lli").attrs["units"] == {"time": "ns", "bytes": "bytes"}
    assert results.counters("lli").attrs["units"]["state.pit.bytes"] == "bytes"
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UserError, match=r"^polars is not installed: pip install polars"):
        results.polars("latency")


def test_a_terminal_is_no_notebook(tmp_path: Path) -> None:
    assert not notebook.is_here()
    code = (
        "from testbed.api import notebook; bars = notebook.Bars(); bars.begin('x'); print(notebook.is_here())"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path)}
    command = [sys.executable, "-m", "IPython", "--no-banner", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "False"


def test_a_mistake_is_one_line(kernel: Kernel) -> None:
    assert kernel.fail("from feednet.labs import check\ncheck('lost', {'lli': 80})") == [
        "feednet: lab lost has no question 'lli'; it has who, lli_ms, selective_ms, poll_ms"
    ]
