"""`pip install feednet` without extras: forwarder, Scuttlebutt peer and client library work.

The rest says what it lacks and how to get it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from bare import closure, foreign
from daemon_process import CONFIG, DaemonProcess
from packaging.requirements import Requirement
from patience import PATIENCE_S

from base.sockets import free_port
from testbed.cli.extras import packages_of

ROOT = Path(__file__).parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{ROOT}/tests{os.pathsep}{ROOT}", "FOREIGN": " ".join(foreign())}
HEAVY = {"pyspark", "mininet", "plotly", "pandas", "numpy", "pyarrow", "scapy", "scipy", "matplotlib"}


def bare(*arguments: str, cwd: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bare", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=ENVIRONMENT, cwd=cwd
    )


def test_nothing_heavy_comes_without_an_extra() -> None:
    assert not HEAVY & closure("feednet")


def test_every_extra_s_package_is_imported_by_its_own_name_in_small_letters() -> None:
    """testbed.cli.extras relies on that."""
    names = {name.lower(): packages for packages, all_ in packages_distributions().items() for name in all_}
    for package in packages_of("testbed"):
        assert package in packages_distributions(), f"{package} is imported as {names.get(package)}"


PROGRAM = """
import sys
import feednet
from ndn.appv2 import NDNApp
from ndn.transport.stream_face import UnixFace

app = NDNApp(face=UnixFace("nfd.sock"))
feeds = feednet.Feeds(app)

async def publish():
    feed = await feeds.publish(feednet.Log("camera.feed", "/unibas/camera"))
    for number in range(3):
        feed.append(b"picture %d" % number)
    print(feed.uri, flush=True)

async def follow(uri):
    async with feeds.subscribe(uri) as items:
        async for item in items:
            print(item.seq, item.message.decode())
            if item.seq == 3:
                break
    app.shutdown()

app.run_forever(after_start=follow(sys.argv[1]) if sys.argv[1:] else publish())
assert not {"pyspark", "numpy", "testbed"} & sys.modules.keys()
"""


@contextmanager
def started(*arguments: str, cwd: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A program, and its first line."""
    command = [sys.executable, "-m", "bare", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=cwd)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_forwarder_and_the_client_library_work(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CONFIG + "[metrics]\nlisten = true\nport = 0\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    with started("feednet", "forward", "--config", "c.toml", cwd=tmp_path) as (forwarder, ready):
        daemon = DaemonProcess(forwarder, ready, tmp_path)
        with started("program.py", cwd=tmp_path) as (_, uri):
            done = bare("program.py", uri, cwd=tmp_path)
            assert done.stdout.splitlines() == [f"{n + 1} picture {n}" for n in range(3)], done.stderr
        shown = bare("feednet", "status", "--socket", str(daemon.path))
        assert "/localhost" in shown.stdout, shown.stderr
        assert daemon.stop() == 0


def test_the_peer_works(tmp_path: Path) -> None:
    written = bare("feednet", "ssb", "--path", "ann", "publish", "Hello", cwd=tmp_path)
    assert re.fullmatch(r"%.+\.sha256\n", written.stdout), written.stderr
    options = ("--host", "127.0.0.1", "--port", str(free_port()))
    with started("feednet", "ssb", "--path", "ann", "peer", *options, cwd=tmp_path) as (_, ready):
        assert ready.startswith("feednet: ready, net:127.0.0.1:")
        shown = bare("feednet", "ssb", "--path", "ann", "status", cwd=tmp_path)
        assert re.search(r"(?m)^peer +running$", shown.stdout), shown.stderr
        assert re.search(r"(?m)^messages +1 of 1 feeds", shown.stdout)


COMMANDS = (
    "analyze x",
    "compare x",
    "dissect x",
    "model ladder",
    "report x",
    "run fanout",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_lacks_an_extra_says_so_in_one_line_with_a_command(tmp_path: Path, command: str) -> None:
    done = bare("feednet", *command.split(), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("feednet: ")
    assert "comes with the extra `testbed`: " in line
    assert not list(tmp_path.iterdir()), "nothing is left behind"
    words = line.partition("extra `testbed`: ")[2]
    assert words.startswith(f"{sys.executable} -m pip install ") or words.startswith("uv pip install ")
    named = {Requirement(word.strip("'")).name.lower() for word in words.split() if word[0] == "'"}
    assert named >= HEAVY


def test_help_lists_all_commands_and_doctor_has_the_same_command(tmp_path: Path) -> None:
    done = bare("feednet", "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^  rerun +\(not installed\)$", done.stdout)
    assert re.search(r"(?m)^  forward +Forward NDN packets", done.stdout)
    told = bare("feednet", "doctor", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert re.search(r"testbed +not installed: .*\n +mend: .* install 'networkx", told.stdout)


def test_the_api_says_so_too(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("from feednet import Log\nfrom feednet import Experiment\n")
    done = bare("program.py", cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: feednet.Experiment needs "), last
    assert "comes with the extra `testbed`: " in last


@pytest.mark.parametrize("module", ["packets", "streams", "topologies"])
def test_modules_of_the_api_say_so(tmp_path: Path, module: str) -> None:
    (tmp_path / "program.py").write_text(f"import feednet.{module}\n")
    last = bare("program.py", cwd=tmp_path).stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: feednet.{module} needs "), last
    assert "comes with the extra `testbed`: " in last
