"""`feednet doctor`: what it says where something is missing, and the command that it gives."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from captures import dissectors
from testbed.cli import doctor
from topologies.mininet import sandbox


def of(what: str) -> doctor.Finding:
    (found,) = [each for each in doctor.examine() if each.what == what]
    return found


def test_it_says_something_of_everything() -> None:
    result = CliRunner().invoke(doctor.doctor, ["--json"], catch_exceptions=False)
    found = json.loads(result.output)
    wanted = [
        "Python",
        "compiled",
        "testbed",
        "Java",
        "Mininet",
        "namespaces",
        "netem",
        "real-time priority",
        "clock",
        "disk",
    ]
    assert [each["what"] for each in found] == [*wanted, "memory", "Wireshark"]
    assert all(each["says"] for each in found)
    assert all(bool(each["mend"]) or each["state"] == "ok" or each["what"] == "netem" for each in found)
    plain = CliRunner().invoke(doctor.doctor, [], catch_exceptions=False)
    assert plain.output.startswith("ok  Python ")
    assert plain.output.count("mend: ") == sum(bool(each["mend"]) for each in found)


def test_all_packages_that_are_missing_are_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = of("Mininet")
    assert found.state == "less"
    assert found.says == (
        "not on PATH: unshare, setpriv, ip, bash, ifconfig, mnexec; scenarios run in the emulator"
    )
    assert found.mend == (
        "sudo apt install --no-install-recommends bash iproute2 mininet net-tools util-linux"
    )
    assert of("namespaces").mend == "sudo apt install util-linux"
    assert of("netem").mend == "sudo apt install iproute2"
    assert of("Wireshark").mend == "sudo apt install --no-install-recommends tshark"


def test_other_reasons_against_mininet(monkeypatch: pytest.MonkeyPatch) -> None:
    for why_not, mend in (
        ("no namespaces may be made here (x); run as root: sysctl a=1 b=2", "sudo sysctl a=1 b=2"),
        ("no veth interfaces can be made (x); load the kernel's module: modprobe veth", "sudo modprobe veth"),
        (
            "Mininet cannot be imported (x); pip install mininet setuptools",
            f"{sys.executable} -m pip install mininet setuptools",
        ),
    ):
        monkeypatch.setattr(sandbox, "why_not", lambda why_not=why_not: why_not)
        monkeypatch.setattr(sandbox, "missing", dict)
        assert of("Mininet").mend == mend


def test_java_and_sail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert of("Java").mend == "sudo apt install default-jre-headless"
    assert of("Java").state == "less", "Sail is here"
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda _: None)
    assert of("Java").state == "missing"
    assert CliRunner().invoke(doctor.doctor, []).exit_code == 1
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    java.chmod(0o755)
    install = shlex.split(of("Java").mend)
    assert install[:4] == [sys.executable, "-m", "pip", "install"]
    done = subprocess.run([*install, "--dry-run"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, "all of it is here, so that no index is asked"
    assert not [word for word in install[4:] if "feednet" in word], "which no index has"


def test_an_old_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.sys, "version_info", (3, 10, 2))
    assert of("Python").state == "missing"


def test_a_slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 10**12, 10**9))
    monkeypatch.setattr(doctor, "_GOOD_CLOCKS", ())
    monkeypatch.setattr(doctor.time, "perf_counter_ns", lambda: next(ticks))
    assert "500000 ns a reading: slow" in of("clock").says
    assert "current_clocksource" in of("clock").mend


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "_WANTED_BYTES", 1 << 60)
    assert "captures grow" in of("disk").says
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    assert of("disk").state == "missing"


def test_the_plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(dissectors, "WIRESHARK_PLUGINS", tmp_path)
    install = "feednet dissect --wireshark-plugin --install"
    assert (of("Wireshark").state, of("Wireshark").mend) == ("less", install)
    from captures.dissectors import WIRESHARK_PLUGIN

    (tmp_path / WIRESHARK_PLUGIN.name).write_bytes(WIRESHARK_PLUGIN.read_bytes())
    assert of("Wireshark").state == "ok"
    (tmp_path / WIRESHARK_PLUGIN.name).write_text("old")
    assert "of another version" in of("Wireshark").says


def test_no_namespaces_and_no_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "command", lambda argv: ["sh", "-c", "echo not you >&2; exit 1"])
    assert "none may be made here (not you)" in of("namespaces").says
    failed = subprocess.CompletedProcess([], 1)
    monkeypatch.setattr(sandbox, "command", lambda argv: ["true"])
    real = subprocess.run
    monkeypatch.setattr(
        doctor.subprocess, "run", lambda argv, **more: failed if "-S" in argv else real(argv, **more)
    )
    assert of("real-time priority").state == "less"
