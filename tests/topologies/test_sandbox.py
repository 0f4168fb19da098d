import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from patience import PATIENCE_S

from topologies.mininet import sandbox

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
PROGRAMS = str(Path(__file__).with_name("networks_in_box.py"))

# Runs a program in a box, as a command line would. BOX_GRACE_S shortens a test's patience.
OUTSIDE = """
import os, sys
from topologies.mininet import sandbox
sandbox._GRACE_S = float(os.environ.get("BOX_GRACE_S", sandbox._GRACE_S))
sys.exit(sandbox.box(sys.argv[1:]))
"""

# Says that it is ready, waits to be interrupted, cleans up at leisure.
PATIENT = """
import signal, time
from topologies.mininet import sandbox
sandbox.prepare()
try:
    print("ready", flush=True)
    signal.pause()
except KeyboardInterrupt:
    time.sleep(0.1)
    print("cleaned up", flush=True)
    raise SystemExit(9)
"""

STUBBORN = """
import signal
from topologies.mininet import sandbox
sandbox.prepare()
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
print("ready", flush=True)
while True:
    signal.pause()
"""

WITHOUT_END = {**ENVIRONMENT, "BOX_GRACE_S": "100000"}
"""For a box whose patience with a program that has been asked to end is greater than ours."""

needs_box = pytest.mark.skipif(bool(reason := sandbox.why_not()), reason=reason or "")


def boxed(program, *arguments, **options):
    """A process that runs a Python program in a box, its output to be read."""
    argv = [sys.executable, "-c", OUTSIDE, sys.executable, "-c", program, *arguments]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.PIPE}
    return subprocess.Popen(argv, text=True, **{"env": ENVIRONMENT, **streams, **options})


@pytest.mark.mininet
@needs_box
@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)]
)
def test_the_status_is_that_of_the_program(script, status):
    process = boxed(
        "import os, sys; from topologies.mininet import sandbox;"
        " sandbox.prepare(); os.execlp('sh', 'sh', '-c', sys.argv[1])",
        script,
    )
    assert (*process.communicate(timeout=PATIENCE_S), process.returncode) == ("", "", status)


@pytest.mark.mininet
@needs_box
def test_a_box_has_namespaces_and_a_loopback_of_its_own():
    process = boxed("""
import json, os, resource
from topologies.mininet import sandbox
sandbox.prepare()
print(json.dumps([
    {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "mnt", "pid")},
    len([entry for entry in os.listdir("/proc") if entry.isdigit()]),
    os.popen("ip -brief address show dev lo").read().split()[2],
    resource.getrlimit(resource.RLIMIT_NOFILE),
    input(),
]))
""")
    output, errors = process.communicate("from outside\n", timeout=PATIENCE_S)
    assert errors == ""
    namespaces, processes, loopback, files, line = json.loads(output)
    for kind, own in namespaces.items():
        assert own != os.readlink(f"/proc/self/ns/{kind}")
    assert processes == 2
    assert loopback == "127.0.0.1/8"
    assert files == [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2
    assert line == "from outside"


@pytest.mark.mininet
@needs_box
def test_orphans_are_reaped_and_exit_codes_of_children_are_not():
    process = boxed("""
import os, subprocess, time
from topologies.mininet import sandbox
sandbox.prepare()
child = subprocess.Popen(["sh", "-c", "exit 5"])
orphan = int(subprocess.check_output(["sh", "-c", "sleep 0.05 >/dev/null & echo $!"]))
deadline = time.monotonic() + 300
while os.path.exists(f"/proc/{orphan}"):
    assert time.monotonic() < deadline
    time.sleep(0.01)
print(child.wait())
""")
    assert (*process.communicate(timeout=PATIENCE_S), process.returncode) == ("5\n", "", 0)


@pytest.mark.mininet
@needs_box
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_has_the_program_clean_up(number):
    process = boxed(PATIENT, env=WITHOUT_END)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert (*process.communicate(timeout=PATIENCE_S), process.returncode) == ("cleaned up\n", "", 9)


@pytest.mark.mininet
@needs_box
def test_ctrl_c_reaches_everyone_and_interrupts_once():
    process = boxed(PATIENT, start_new_session=True, env=WITHOUT_END)
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    assert (*process.communicate(timeout=PATIENCE_S), process.returncode) == ("cleaned up\n", "", 9)


@pytest.mark.mininet
@needs_box
def test_a_program_that_does_not_end_is_killed():
    process = boxed(STUBBORN, env={**ENVIRONMENT, "BOX_GRACE_S": "0.1"})
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert (errors, process.returncode) == ("", 137)
    assert output in ("asked\n", "")  # it may be too slow to say so


@pytest.mark.mininet
@needs_box
def test_a_second_interrupt_kills_at_once():
    process = boxed(STUBBORN, env=WITHOUT_END)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.stdout.readline() == "asked\n"
    process.terminate()
    assert (*process.communicate(timeout=PATIENCE_S), process.returncode) == ("", "", 137)


@pytest.mark.mininet
@needs_box
def test_a_killed_box_leaves_nothing():
    argv = [sys.executable, "-c", OUTSIDE, sys.executable, PROGRAMS, "stay"]
    with subprocess.Popen(argv, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        namespace = process.stdout.readline().strip().strip('"')
        # The first process, the program, and the relay: hosts have no processes.
        assert len(members(namespace)) == 3
        process.kill()
    deadline = time.monotonic() + PATIENCE_S
    while members(namespace):
        assert time.monotonic() < deadline, "processes of the box have survived it"
        time.sleep(0.01)


def members(pid_namespace):
    """Living processes in a process namespace; a network namespace without any of them is gone too."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and os.readlink(process / "ns/pid") == pid_namespace:
                found.append(process.name)
    return found


def test_prepare_is_for_the_inside_of_a_box():
    with pytest.raises(
        sandbox.BoxError, match=r"prepare\(\) must be called by a process that box\(\) started"
    ):
        sandbox.prepare()


def test_a_box_without_its_tools(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(sandbox.BoxError, match="setpriv is not on PATH; install util-linux"):
        sandbox.box(["true"])


def test_the_command_adds_a_user_namespace_without_root(monkeypatch):
    rest = ["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--", "true", "-x"]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert sandbox.command(["true", "-x"]) == ["unshare", *rest]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert sandbox.command(["true", "-x"]) == ["unshare", "--user", "--map-root-user", *rest]


TOOLS = ("unshare", "setpriv", "ip", "bash", "ifconfig", "mnexec")


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A PATH of its own, with every tool a program that succeeds."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in (*TOOLS, "tc"):
        tool(tmp_path, name, "exit 0")
    return tmp_path


def tool(directory, name, script):
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


def test_nothing_is_wrong_where_all_succeeds(tools):
    assert sandbox.why_not() is None
    assert sandbox.why_no_netem() is None
    assert sandbox.has_netem()


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("unshare", "unshare is not on PATH; install it, on Debian and Ubuntu with apt install util-linux"),
        ("ip", "ip is not on PATH; install it, on Debian and Ubuntu with apt install iproute2"),
        ("ifconfig", "ifconfig is not on PATH; install it, on Debian and Ubuntu with apt install net-tools"),
        (
            "mnexec",
            "mnexec is not on PATH; install it, on Debian and Ubuntu with apt install mininet"
            " (with --no-install-recommends); PyPI's mininet lacks it",
        ),
    ],
)
def test_a_tool_is_missing(tools, missing, message):
    (tools / missing).unlink()
    assert sandbox.why_not() == message


def test_mininet_is_missing(tools, monkeypatch):
    monkeypatch.setitem(sys.modules, "mininet.net", None)
    message = sandbox.why_not()
    assert message.startswith("Mininet cannot be imported (")
    assert message.endswith("); pip install mininet setuptools")


def test_namespaces_are_forbidden(tools):
    tool(tools, "unshare", "echo 'unshare: unshare failed:' >&2; echo 'Operation not permitted' >&2; exit 1")
    assert sandbox.why_not() == (
        "no namespaces may be made here (unshare: unshare failed: Operation not permitted); run as root, in a"
        " container as a privileged one, or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1"
        " kernel.apparmor_restrict_unprivileged_userns=0"
    )


def test_veth_is_missing(tools):
    tool(tools, "unshare", 'case "$*" in *veth*) echo "Error: Unknown device type." >&2; exit 2;; esac')
    assert sandbox.why_not() == (
        "no veth interfaces can be made (Error: Unknown device type.);"
        " load the kernel's module: modprobe veth"
    )


def test_netem_is_missing(tools):
    tool(tools, "unshare", "exit 3")
    assert sandbox.why_no_netem() == "this kernel has no netem (exit status 3)"
    assert not sandbox.has_netem()
    (tools / "tc").unlink()
    assert sandbox.why_no_netem() == "tc is not on PATH"
