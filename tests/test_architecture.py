"""The house rules that a program can check: imports point down, the core has no sockets and no clocks."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def layered(place: str, *rooms: str) -> dict[str, set[str]]:
    """Return the rooms of a package, each with those that it may import: the ones before it."""
    return {
        f"{place}/{room}": {f"{place}.{lower}" for lower in rooms[:number]}
        for number, room in enumerate(rooms)
    }


NDN = {"feednet", "forwarder", "ssb", "ssb_over_ndn", "ndn_over_ssb", "captures", "topologies"}
LINKS = {"topologies.link", "topologies.radio"}
DECODED = {"captures", "forwarder.wire", "analysis.errors", "analysis.files"} | LINKS
ANALYSIS = layered(
    "analysis", "decode", "run", "spark", "tables", "pit", "metrics", "live", "report", "pipelines", "export"
)
TESTBED = layered(
    "testbed",
    *(
        "layerings",
        "layerings/tiny",
        "scenario",
        "hosts",
        "experiment",
        "api",
        "artifact",
        "ladder",
        "ladder/swarms",
        "watch",
        "verify",
        "verify/links",
        "verify/simulate",
        "verify/swarms",
        "verify/providers",
        "verify/social",
        "verify/mapping",
        "verify/tiny",
        "cli",
        "verify/soak",
        "verify/fuzz",
        "bench",
        "bench/tiny",
    ),
)

MAY_IMPORT: dict[str, set[str]] = {
    "forwarder/wire": set(),
    "forwarder/feedcache": {"forwarder.wire", "ssb"},
    "forwarder/lli": {
        "forwarder.wire",
        "forwarder.feedcache",
        "forwarder.tables.face",
        "forwarder.tables.fib",
        "forwarder.tables.pacing",
        "base.timers",
    },
    "forwarder": {"forwarder"},
    "ssb": set(),
    "ssb/store": {"ssb.keys", "ssb.canonical", "ssb.message", "ssb.export"},
    "ssb/applications": {"ssb.keys", "ssb.message"},
    "ssb/transport": {"ssb.keys", "ssb.canonical", "captures.formats.key_log"},
    "ssb/replication": {"ssb.keys", "ssb.canonical", "ssb.message", "ssb.store", "ssb.transport.muxrpc"}
    | {"base.timers"},
    "ssb/tiny": {
        "ssb.bipf",
        "ssb.keys",
        "ssb.store",
        "base.timers",
        "base.token_bucket",
        "base.endpoint",
    },
    "ssb/tiny/isp": {"ssb.bipf", "ssb.keys", "base.timers", "ssb.tiny", "base.token_bucket"},
    "ssb/tiny/daemon": {"ssb.bipf", "ssb.keys", "ssb.store", "ssb.tiny", "topologies", "forwarder.faces"},
    "ssb/peer": {"ssb", "captures.formats.key_log", "base.timers", "base.endpoint"},
    "ssb/daemon": {"ssb", "topologies", "base.netif"},
    "ssb_over_ndn": {"forwarder", "ssb", "base.endpoint"},
    "ssb_over_ndn/social": {"forwarder", "ssb", "ssb_over_ndn"},
    "ssb_over_ndn/mapping": {"forwarder", "ssb", "ssb_over_ndn"},
    "ndn_over_ssb": {"forwarder", "ssb", "base.endpoint"},
    "feednet": {"forwarder", "ssb", "ssb_over_ndn", "ndn_over_ssb"},
    "captures": {"forwarder.wire", "ssb.bipf"},
    "topologies": {"forwarder.faces"},
    "topologies/emulator": {"topologies", "captures"},
    "topologies/emulator/tcp": {"base.timers"},
    "topologies/mininet": {"topologies", "captures"},
    "analysis": {"captures", "analysis.errors"} | LINKS,
    **{room: below | DECODED for room, below in ANALYSIS.items()},
    "analysis/decode/protocols": {"captures", "forwarder.wire", "analysis.packet_schema"}
    | {"ssb", "ssb_over_ndn.naming", "ndn_over_ssb"},
    "testbed": {"forwarder"},
    **{
        room: {name.replace("/", ".") for name in below} | NDN | {"analysis", "testbed.errors"}
        for room, below in TESTBED.items()
    },
}
"""What each room may import from this repository, besides itself."""

FACADE = {f"feednet/{name}.py" for name in ("__init__", "__main__", "packets", "streams", "topologies")}
"""The public names and the command, from any room."""

DIVIDED = {"analysis", "testbed"}
"""Packages whose rooms may not import the whole package, nor the modules at its top unless they are named."""

OURS = {room.partition("/")[0] for room in MAY_IMPORT}

CLOCKS_AND_SOCKETS = {"asyncio", "datetime", "select", "selectors", "signal", "socket", "threading", "time"}
SHELL = {"forwarder/daemon", "forwarder/faces", "ssb/daemon", "ssb/tiny/daemon"}
"""Where the core meets the outside; everything else in these rooms is sans-IO."""
SANS_IO = {"forwarder", "ssb", "ssb_over_ndn", "ndn_over_ssb", "topologies/emulator"}


def modules() -> list[Path]:
    return sorted(path for room in OURS for path in (ROOT / room).rglob("*.py"))


def room_of(path: Path) -> str:
    inside = path.relative_to(ROOT).parent.as_posix()
    return max((room for room in MAY_IMPORT if f"{inside}/".startswith(f"{room}/")), key=len)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield str(node.module)


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    if path.relative_to(ROOT).as_posix() in FACADE:
        return
    allowed = MAY_IMPORT[room] | ({room.replace("/", ".")} - DIVIDED)
    for name in imports(path):
        if name.partition(".")[0] in OURS:
            assert any(f"{name}.".startswith(f"{place}.") for place in allowed), f"{room} imports {name}"


@pytest.mark.parametrize(
    "path",
    [path for path in modules() if {room_of(path), room_of(path).partition("/")[0]} & SANS_IO],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_the_core_has_no_socket_and_no_clock(path: Path) -> None:
    if any(path.relative_to(ROOT).as_posix().startswith(f"{room}/") for room in SHELL):
        return
    used = {name.partition(".")[0] for name in imports(path)}
    assert not used & CLOCKS_AND_SOCKETS


@pytest.mark.parametrize("room", ["analysis/decode", "analysis/report"])
def test_it_does_without_spark(room: str) -> None:
    """No module names PySpark, not even in a function, and what modules import at their top needs none."""
    paths = sorted((ROOT / room).rglob("*.py"))
    for path in paths:
        assert not {name for name in imports(path) if name.partition(".")[0] == "pyspark"}, path
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    program = (
        f"import importlib, sys; sys.modules['pyspark'] = None; [*map(importlib.import_module, {names})]"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_the_core_does_not_know_its_shell() -> None:
    """Sockets and the daemon know tables, strategies and management; not the other way."""
    for path in modules():
        inside = path.relative_to(ROOT).as_posix()
        if inside.startswith("forwarder/") and not inside.startswith(tuple(f"{room}/" for room in SHELL)):
            rooms = {name.replace(".", "/") for name in imports(path)}
            assert not {name for name in rooms if f"{name}/".startswith(tuple(f"{r}/" for r in SHELL))}


def test_every_room_is_there_and_every_package_is_a_room() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == OURS
    for place in DIVIDED:
        rooms = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / place).glob("*/__init__.py")}
        assert rooms <= MAY_IMPORT.keys()
    assert all((ROOT / room).is_dir() for room in MAY_IMPORT)


def test_test_modules_have_names_of_their_own() -> None:
    """pytest imports them by their names alone."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
