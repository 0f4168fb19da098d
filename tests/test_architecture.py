"""The house rules that a program can check: imports point down, the core has no sockets and no clocks."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]


def layered(place: str, *rooms: str) -> dict[str, set[str]]:
    """Return the rooms of a package, each with those that it may import: the ones before it."""
    return {
        f"{place}/{room}": {f"{place}.{lower}".replace("/", ".") for lower in rooms[:number]}
        for number, room in enumerate(rooms)
    }


NDN = {"feednet", "base", "forwarder", "ssb", "ssb_over_ndn", "ndn_over_ssb", "captures", "topologies"}
DECODED = {"base", "captures", "forwarder.wire"}
DECODED |= {f"topologies.{each}" for each in ("link", "radio", "ranges")}
DECODED |= {"analysis.errors", "analysis.files", "analysis.packet_schema"}
ANALYSIS = layered(
    "analysis",
    *("decode/protocols", "decode", "run", "spark", "columns", "tables", "pit", "pit/windows"),
    *("metrics", "metrics/run", "metrics/captures", "live"),
    *("report/words", "report/figures", "report", "player", "pipelines", "export"),
)
TESTBED = layered(
    "testbed",
    *(
        "layerings/nodes",
        "layerings/peers",
        "layerings/kinds",
        "layerings/tiny",
        "layerings",
        "scenario",
        "hosts",
        "experiment",
        "api",
        "artifact",
        "ladder",
        "ladder/swarms",
        "ladder/pages",
        "study",
        "watch",
        "verify",
        "verify/links",
        "verify/kit",
        "verify/push/stories",
        "verify/push/world",
        "verify/push",
        "verify/classic",
        "verify/swarms",
        "verify/providers",
        "verify/social",
        "verify/mapping",
        "verify/tiny",
        "labs",
        "templates",
        "cli",
        "verify/crash",
        "verify/soak",
        "verify/fuzz/subjects",
        "verify/fuzz",
        "bench",
        "bench/growth",
        "bench/peers",
        "bench/runs",
        "bench/tiny",
    ),
)

MAY_IMPORT: dict[str, set[str]] = {
    "base": set(),
    "ssb": {"base"},
    "ssb/store": {
        "base",
        "ssb.keys",
        "ssb.canonical",
        "ssb.message",
        "ssb.ending",
        "ssb.detached",
        "ssb.export",
        "ssb.work",
    },
    "ssb/transport": {"base", "ssb.keys", "ssb.canonical"},
    "ssb/suites": {
        "base",
        "ssb.key_file",
        "ssb.keys",
        "ssb.canonical",
        "ssb.message",
        "ssb.ending",
        "ssb.detached",
        "ssb.store",
        "ssb.work",
    },
    "ssb/groups": {"ssb.keys", "ssb.canonical", "ssb.message"},
    "ssb/replication": {
        "base",
        "ssb.keys",
        "ssb.canonical",
        "ssb.message",
        "ssb.store",
        "ssb.transport.muxrpc",
    },
    "ssb/branches": {
        "base",
        "ssb.applications.causality",
        "ssb.canonical",
        "ssb.ending",
        "ssb.keys",
        "ssb.message",
        "ssb.replication",
        "ssb.store",
        "ssb.work",
    },
    "ssb/tiny": {"base", "ssb.bipf", "ssb.ending", "ssb.keys", "ssb.store"},
    "ssb/tiny/isp": {"base", "ssb.bipf", "ssb.keys", "ssb.tiny"},
    "ssb/tiny/daemon": {"base", "ssb.bipf", "ssb.keys", "ssb.store", "ssb.tiny"},
    "ssb/mqtt": {"base", "ssb.keys"},
    "ssb/multicast": {"base"},
    "ssb/moq": {"base", "ssb.keys"},
    "ssb/rooms": {"base", "ssb.keys", "ssb.canonical", "ssb.transport"},
    "ssb/peer": {"base", "ssb"},
    "ssb/daemon": {"base", "ssb"},
    "forwarder/wire": set(),
    "forwarder/feedcache": {"forwarder.wire", "ssb"},
    "forwarder/tables": {"base", "forwarder.wire"},
    "forwarder/lli": {"base", "forwarder.wire", "forwarder.feedcache", "forwarder.tables"},
    "forwarder/strategies": {"base", "forwarder.wire", "forwarder.tables"},
    "forwarder/links": {"base", "forwarder.wire", "forwarder.tables"},
    "forwarder/pipelines": {
        "base",
        "forwarder.wire",
        "forwarder.tables",
        "forwarder.feedcache",
        "forwarder.lli",
        "forwarder.strategies",
    },
    "forwarder": {"base", "forwarder"},
    "captures": {"base", "forwarder.wire", "ssb.bipf"},
    "topologies": {"base"},
    "topologies/emulator": {"base", "topologies", "captures"},
    "topologies/emulator/tcp": {"base"},
    "topologies/mininet": {"base", "topologies", "captures"},
    "ssb_over_ndn": {"base", "forwarder", "ssb"},
    "ndn_over_ssb": {"base", "forwarder", "ssb"},
    "feednet": {"base", "forwarder", "ssb", "ssb_over_ndn", "ndn_over_ssb"},
    "analysis": {"base", "captures", "analysis.errors"},
    **{room: below | DECODED for room, below in ANALYSIS.items()},
    "analysis/decode/protocols": DECODED | {"ssb", "ssb_over_ndn.naming", "ndn_over_ssb"},
    "analysis/metrics": ANALYSIS["analysis/metrics"] | DECODED | {"ssb", "ssb_over_ndn.naming"},
    "testbed": {"base", "forwarder"},
    **{
        room: {name.replace("/", ".") for name in below}
        | NDN
        | {"analysis", "testbed.errors", "testbed.library"}
        for room, below in TESTBED.items()
    },
}
"""What each room may import from this repository, besides itself."""

FACADE = {
    f"feednet/{name}.py" for name in ("__init__", "__main__", "labs", "packets", "streams", "topologies")
}
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


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports of a module, also those in functions: most rules ask for them again."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def imported_modules(path: Path, known: set[str]) -> Iterator[str]:
    """Yield the modules that a module imports, whichever way it names them; a package is its __init__."""
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            found = [
                inner if (inner := f"{node.module}.{alias.name}") in known else str(node.module)
                for alias in node.names
            ]
        yield from (name for each in found for name in (each, f"{each}.__init__") if name in known)


def room_of(path: Path) -> str:
    inside = path.relative_to(ROOT).parent.as_posix()
    return max((room for room in MAY_IMPORT if f"{inside}/".startswith(f"{room}/")), key=len)


def imports(path: Path) -> Iterator[str]:
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
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


@pytest.mark.parametrize("depth", [None, -1, 1], ids=["files", "folders", "packages"])
def test_nothing_imports_in_a_circle(depth: int | None) -> None:
    """Imports inside functions count; the public names lead to any room, and are left out."""
    names = {path: module_name(path) for path in modules()}
    names = {path: name for path, name in names.items() if path.relative_to(ROOT).as_posix() not in FACADE}
    known = set(names.values())
    graph = nx.DiGraph()
    for path, name in names.items():
        for imported in imported_modules(path, known):
            ends = [".".join(each.split(".")[:depth]) or each for each in (name, imported)]
            if ends[0] != ends[1]:
                graph.add_edge(*ends)
    assert [sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1] == []


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


MOST_MODULES = 14
MOST_LINES = 60
MOST_METHODS = 30

BY_TABLE = {
    "Upstream": "the states of one upstream, whose TRANSITIONS are a table: a method for each action",
    "Upstreams": "the rules of docs/controlled-push.md that choose an upstream: a method for each rule",
    "FeedTable": "a method for each message of the protocol, and one for each event",
}
"""Classes that may have more methods, each with the table that explains them."""


def test_a_folder_holds_about_a_dozen_modules() -> None:
    counts = Counter(
        path.parent.relative_to(ROOT).as_posix() for path in modules() if path.name != "__init__.py"
    )
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_functions_and_classes_are_short() -> None:
    long, large = {}, set()
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > MOST_LINES:
                    long[f"{module_name(path)}.{node.name}"] = lines
            elif isinstance(node, ast.ClassDef):
                methods = [x for x in node.body if isinstance(x, ast.FunctionDef | ast.AsyncFunctionDef)]
                if len(methods) > MOST_METHODS:
                    large.add(node.name)
    assert long == {}
    assert large == BY_TABLE.keys()
