"""The two builds: pure Python unless asked otherwise, and no trace of the other one in the source tree."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("setuptools", minversion="77", reason="too old to read pyproject.toml")

ROOT = Path(__file__).parents[1]
PLAIN = (
    *("forwarder/daemon/", "forwarder/faces/", "forwarder/management/"),
    *("forwarder/strategies/", "forwarder/strategies/strategy.py", "forwarder/toml_file.py"),
)
DESCRIBE = """
import setuptools, sys
from distutils.core import run_setup
found = run_setup("setup.py", sys.argv[1:], stop_after="commandline")
print(*(source for module in found.ext_modules or () for source in module.sources))
"""


def compiled_by(command: str, **environment: str) -> set[str]:
    """The modules that a command of the build backend would compile."""
    kept = {name: value for name, value in os.environ.items() if name != "FEEDNET_COMPILE"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DESCRIBE, command],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=kept | environment,
        text=True,
    )
    return set(done.stdout.split())


def test_a_wheel_is_pure_unless_asked_otherwise() -> None:
    assert compiled_by("bdist_wheel") == set()
    assert compiled_by("bdist_wheel", FEEDNET_COMPILE="0") == set()


def test_a_compiled_wheel_has_the_core_compiled_and_what_is_open_to_users_not() -> None:
    compiled = compiled_by("bdist_wheel", FEEDNET_COMPILE="1")
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "forwarder").rglob("*.py")}
    rooms = {path.split("/")[0] for path in compiled - sources}
    assert rooms == {
        "base",
        "topologies",
        "captures",
        "ssb",
        "ssb_over_ndn",
        "testbed",
    }  # emulator, formats, protocols, simulation
    for path in sources - compiled:
        assert path.endswith("__init__.py") or path.startswith(PLAIN)


def test_an_editable_install_is_pure_always() -> None:
    assert compiled_by("editable_wheel", FEEDNET_COMPILE="1") == set()


def test_the_source_tree_holds_nothing_compiled() -> None:
    rooms = [path.parent for path in ROOT.glob("*/__init__.py")]
    found = [path for room in [*rooms, ROOT / "tests"] for path in room.rglob("*.[cs]*")]
    left = {path.relative_to(ROOT).as_posix() for path in found if path.suffix in (".c", ".so")}
    left |= {path.name for path in ROOT.iterdir() if path.suffix in (".c", ".so")}
    assert left == {"testbed/bench/echo.c"}


def test_the_compiled_run_has_all_tests_that_run_there_only() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    (named,) = re.findall(r"^TESTS_OF_COMPILED := (.*)", recipe, re.MULTILINE)
    marked = re.compile(r"^@pytest\.mark\.compiled$(?:.|\n)*?^def (\w+)", re.MULTILINE)
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        place = path.relative_to(ROOT).as_posix()
        tests = [f"{place}::{name}" for name in marked.findall(text)]
        tests += [place] * bool(re.search(r"^pytestmark = .*mark\.compiled\b", text, re.MULTILINE))
        for test in tests:
            assert any(re.match(rf"{re.escape(each)}(/|::|$)", test) for each in named.split()), test


@pytest.mark.parametrize("target", ["demo", "test", "test-slow", "docs", "bench", "fuzz", "soak", "pictures"])
def test_every_recipe_of_the_makefile_is_a_program_of_the_shell(target: str) -> None:
    """A comma in an argument of a macro once cut `make demo` short."""
    wanted = ["make", "--dry-run", "--always-make", target]
    said = subprocess.run(wanted, cwd=ROOT, capture_output=True, text=True, check=True)
    recipes = "\n".join(line for line in said.stdout.splitlines() if not line.startswith("make["))
    checked = subprocess.run(["sh", "-n"], input=recipes, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
