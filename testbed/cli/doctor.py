"""`feednet doctor`: working and broken features on this machine, with the commands that fix them."""

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import click

from analysis.errors import install_command
from analysis.spark.memory import available_bytes
from base import compiled
from testbed.cli.extras import missing
from topologies.mininet import sandbox

State = Literal["ok", "less", "missing"]
"""It works; something works less well without it; something does not work without it."""

_OLDEST_PYTHON = (3, 11)
_WANTED_BYTES = 2 << 30
_GOOD_CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")
_SLOW_CLOCK_NS = 1000
_CALLS = 2000


class Finding(NamedTuple):
    """State of a requirement.

    Attributes:
        what: the requirement.
        state: how well it works.
        says: what was found, or the problem, and the purpose of the requirement.
        mend: the command that fixes it, "" if none is needed.
    """

    what: str
    state: State
    says: str
    mend: str = ""


def examine() -> list[Finding]:
    """Return the state of requirements; of scenarios and captures only with their packages installed."""
    is_complete = _testbed().state == "ok"
    return [check() for check in _CHECKS if is_complete or check not in _OF_TESTBED]


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info < _OLDEST_PYTHON:
        return Finding(
            "Python",
            "missing",
            f"{version}; 3.11 or newer is needed",
            "sudo apt install python3.11 python3.11-venv && make setup PYTHON=python3.11",
        )
    return Finding("Python", "ok", version)


def _compiled() -> Finding:
    state = compiled.state()
    if state == "in use":
        return Finding("compiled", "ok", "the forwarder and the emulator")
    if (compiled.ROOT / "Makefile").exists():
        return Finding("compiled", "less", f"{state}: runs in the emulator take longer", "make compiled")
    return Finding("compiled", "less", "plain Python: runs take longer", "FEEDNET_COMPILE=1 pip install .")


def _testbed() -> Finding:
    lacking = missing("testbed")
    if lacking:
        return Finding(
            "testbed",
            "less",
            f"not installed: scenarios and captures need {', '.join(lacking)};"
            " `feednet forward`, `ssb`, `tiny` and the client library work",
            install_command("testbed"),
        )
    return Finding("testbed", "ok", "scenarios and captures have their packages")


def _analysis() -> Finding:
    from analysis.errors import AnalysisError, install_command
    from analysis.spark.session import check_java

    has_sail = importlib.util.find_spec("pysail") is not None
    sail = "with Sail" if has_sail else "without Sail"
    try:
        java = check_java().splitlines()[0]
    except AnalysisError as error:
        return Finding(
            "Java",
            "less" if has_sail else "missing",
            f"{str(error).partition(':')[0]}; analysis {sail}"
            + (", which needs no Java but takes captures up to 256 MiB only" if has_sail else ""),
            "sudo apt install default-jre-headless",
        )
    if has_sail:
        return Finding("Java", "ok", f"{java}; reports {sail}")
    return Finding(
        "Java", "less", f"{java}; reports {sail}: they take half a minute longer", install_command("sail")
    )


def _mininet() -> Finding:
    why_not = sandbox.why_not()
    if why_not is None:
        return Finding("Mininet", "ok", "runs can be in network namespaces, over real sockets")
    if packages := sorted({*sandbox.missing().values()}):
        said = f"not on PATH: {', '.join(sandbox.missing())}; scenarios run in the emulator"
        install = f"sudo apt install --no-install-recommends {' '.join(packages)}"
        return Finding("Mininet", "less", said, install)
    why, _, mend = why_not.partition("; ")
    return Finding("Mininet", "less", f"{why}: scenarios run in the emulator", _command(mend))


def _namespaces() -> Finding:
    if shutil.which("unshare") is None:
        return Finding("namespaces", "less", "unshare is not on PATH", "sudo apt install util-linux")
    try:
        subprocess.run(sandbox.command(["true"]), capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        return Finding(
            "namespaces",
            "less",
            f"none may be made here ({' '.join(error.stderr.split())}), so Mininet cannot run",
            "sudo sysctl kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0",
        )
    return Finding("namespaces", "ok", "as root" if os.geteuid() == 0 else "in a user namespace")


def _netem() -> Finding:
    why_not = sandbox.why_no_netem()
    if why_not is None:
        return Finding("netem", "ok", "the kernel impairs links")
    if "PATH" in why_not:
        mend = "sudo apt install iproute2"
    else:  # a kernel without modules has built-in netem only
        mend = "sudo modprobe sch_netem" if Path("/proc/modules").exists() else ""
    return Finding("netem", "less", f"{why_not}: the relay impairs links, at some 10 us a frame", mend)


def _priority() -> Finding:
    # In a process of its own: the change is permanent.
    program = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, check=False)
    if done.returncode == 0:
        return Finding("real-time priority", "ok", "the relay has it, and is prompt under load")
    return Finding(
        "real-time priority",
        "less",
        "none for this user: under load the relay may be milliseconds late",
        'echo "$USER - rtprio 1" | sudo tee /etc/security/limits.d/feednet.conf; then log in again',
    )


def _clock() -> Finding:
    source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    name = source.read_text(encoding="ascii").strip() if source.exists() else "unknown"
    begin = time.perf_counter_ns()
    for _ in range(_CALLS):
        time.time_ns()
    cost = (time.perf_counter_ns() - begin) // _CALLS
    said = f"{name}, {cost} ns a reading"
    if cost > _SLOW_CLOCK_NS and name not in _GOOD_CLOCKS:
        return Finding("clock", "less", f"{said}: slow, it costs time at every packet", _CLOCK_MEND)
    return Finding("clock", "ok", said)


_CLOCK_MEND = "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"


def _disk() -> Finding:
    here = Path("runs") if Path("runs").is_dir() else Path()
    free = shutil.disk_usage(here).free
    said = f"{free / (1 << 30):.1f} GiB free in {here.resolve()}"
    if not os.access(here, os.W_OK):
        return Finding("disk", "missing", f"{here.resolve()} cannot be written", "cd to a directory of yours")
    if free < _WANTED_BYTES:
        return Finding("disk", "less", f"{said}; captures grow by 100 MB in minutes", "rm -r runs/OLD-RUN")
    return Finding("disk", "ok", said)


def _memory() -> Finding:
    free = available_bytes() / (1 << 30)
    said = f"{free:.1f} GiB available, {os.cpu_count()} processors"
    if free < 2:
        return Finding("memory", "less", f"{said}: Spark wants 2 GiB", "free some: top -o %MEM")
    return Finding("memory", "ok", said)


def _wireshark() -> Finding:
    from captures.dissectors import WIRESHARK_PLUGIN, WIRESHARK_PLUGINS

    if shutil.which("tshark") is None and shutil.which("wireshark") is None:
        return Finding(
            "Wireshark",
            "less",
            "not installed; `feednet dissect` reads packets without it",
            "sudo apt install --no-install-recommends tshark",
        )
    installed = WIRESHARK_PLUGINS.expanduser() / WIRESHARK_PLUGIN.name
    install = "feednet dissect --wireshark-plugin --install"
    if not installed.exists():
        return Finding("Wireshark", "less", "the plugin for NDN and Scuttlebutt is not installed", install)
    if installed.read_bytes() != WIRESHARK_PLUGIN.read_bytes():
        return Finding("Wireshark", "less", f"{installed} is of another version", install)
    return Finding("Wireshark", "ok", f"the plugin is {installed}")


_CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _compiled,
    _testbed,
    _analysis,
    _mininet,
    _namespaces,
    _netem,
    _priority,
    _clock,
    _disk,
    _memory,
    _wireshark,
)
_OF_TESTBED = {_analysis, _mininet, _namespaces, _netem, _priority, _wireshark}


def _command(mend: str) -> str:
    """Return the command in the advice of sandbox.why_not()."""
    for word in ("apt install", "pip install", "sysctl", "modprobe"):
        if word in mend:
            text = mend[mend.index(word) :].partition("; ")[0].partition(" (")[0]
            return f"{sys.executable} -m {text}" if word == "pip install" else f"sudo {text}"
    return mend


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(as_json: bool) -> None:
    """Say what works on this machine, and for what does not, the command that mends it.

    Exit status 1 if something is missing without which nothing runs.
    """
    found = examine()
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in found], indent=2))
    else:
        signs = {"ok": "ok", "less": "-", "missing": "NO"}
        width = max(len(finding.what) for finding in found)
        for finding in found:
            click.echo(f"{signs[finding.state]:2}  {finding.what:{width}}  {finding.says}")
            if finding.mend:
                click.echo(f"{'':{width + 4}}  mend: {finding.mend}")
    if any(finding.state == "missing" for finding in found):
        sys.exit(1)
