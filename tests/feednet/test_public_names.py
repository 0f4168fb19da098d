"""The public names are those of `feednet` alone; what hides its other packages is said in one line."""

import ast
import inspect
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

import feednet
from feednet import rooms

ROOT = Path(__file__).parents[2]
MODULES = ("packets", "streams", "topologies")


def python(*arguments: str, cwd: Path, path: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
        | {"PYTHONPATH": str(path)},
    )


def test_every_name_is_there_and_type_checkers_see_the_same() -> None:
    assert sorted(feednet.__all__) == list(feednet.__all__)
    tree = ast.parse(inspect.getsource(feednet))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == feednet._MODULES
    assert seen.keys() == set(feednet.__all__)
    assert set(feednet.__all__) <= set(dir(feednet))
    for name in feednet.__all__:
        assert getattr(feednet, name).__name__ in (name, "Script", "Condition", "Callable")
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        feednet.Nothing  # noqa: B018


def test_importing_feednet_imports_none_of_its_rooms() -> None:
    program = f"import feednet, sys; assert not {{*{rooms.ROOMS!r}}} & sys.modules.keys()"
    assert python("-c", program, cwd=ROOT).returncode == 0


def test_the_rooms_are_all_packages_of_the_distribution() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == {"feednet", *rooms.ROOMS}


@pytest.mark.parametrize("room", rooms.ROOMS)
@pytest.mark.parametrize("kind", ["file", "package"])
def test_what_hides_a_room_is_named_in_one_line(tmp_path: Path, room: str, kind: str) -> None:
    hiding = tmp_path / (f"{room}.py" if kind == "file" else f"{room}/__init__.py")
    hiding.parent.mkdir(exist_ok=True)
    hiding.write_text("raise SystemExit('foreign code was run')\n")
    (tmp_path / "script.py").write_text("import sys\nfrom feednet import Log\n")
    done = python("script.py", cwd=tmp_path)
    assert done.returncode == 1
    said = f"{hiding} hides feednet's package `{room}`: give it another name, or take its directory"
    said += " out of the path"
    assert done.stderr.splitlines()[-1] == f"ImportError: {said}"
    command = python("-m", "feednet", "--version", cwd=tmp_path)
    assert (command.returncode, command.stdout) == (1, "")
    assert command.stderr == f"feednet: {said}\n"


@pytest.mark.parametrize("module", MODULES)
def test_modules_check_too(tmp_path: Path, module: str) -> None:
    """Every room, not those alone that the module imports."""
    for room in rooms.ROOMS:
        hiding = tmp_path / room / f"{room}.py"
        hiding.parent.mkdir()
        hiding.write_text("raise SystemExit('foreign code was run')\n")
        done = python("-c", f"import feednet.{module}", cwd=hiding.parent)
        assert done.stderr.splitlines()[-1].startswith(f"ImportError: {hiding} hides feednet's package")


@pytest.mark.parametrize("module", MODULES)
def test_modules_have_the_names_that_they_promise(module: str) -> None:
    found = import_module(f"feednet.{module}")
    assert all(hasattr(found, name) for name in found.__all__)


def test_every_name_has_a_place_on_the_pages_of_the_library() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md"))
    shown = re.findall(r"^::: feednet\.(\w+)$", pages, re.MULTILINE)
    assert sorted(shown) == sorted([*feednet.__all__, *MODULES])


def programs() -> list[tuple[str, str]]:
    """Python of the documents that users copy; strategies run inside the forwarder and import its parts."""
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    blocks = [
        (path.name, block)
        for path in documents
        if path.name not in ("architecture.md", "strategies.md")
        for block in re.findall(r"(?ms)^```python\n(.*?)^```$", path.read_text())
    ]
    return blocks + [(path.name, path.read_text()) for path in sorted((ROOT / "docs/examples").glob("*.py"))]


def test_programs_of_the_documents_import_feednet_alone() -> None:
    assert len(programs()) > 3
    for document, program in programs():
        for node in ast.walk(ast.parse(program)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            assert not {name.partition(".")[0] for name in names} & {*rooms.ROOMS}, (document, names)


def test_a_module_that_has_been_imported_already_hides_a_room_too(tmp_path: Path) -> None:
    (tmp_path / "ssb.py").write_text("")
    script = "import sys\nsys.path.insert(0, '.')\nimport ssb\nsys.path.pop(0)\nfrom feednet import Log\n"
    (tmp_path / "script.py").write_text(script)
    done = python("-P", "script.py", cwd=tmp_path)
    assert f"{tmp_path / 'ssb.py'} hides feednet's package `ssb`" in done.stderr.splitlines()[-1]


def test_a_directory_of_data_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "captures").mkdir()
    (tmp_path / "script.py").write_text("from feednet import Log, Experiment\nprint(Log.__name__)\n")
    done = python("script.py", cwd=tmp_path)
    assert done.stdout == "Log\n", done.stderr


# What is built.


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a source distribution, and the wheel that is built from it."""
    if not (ROOT / ".git").exists():
        pytest.skip("which files are the repository's is known to git")
    directory = tmp_path_factory.mktemp("built")
    tree = directory / "tree"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    make = "from setuptools import build_meta; build_meta.build_{}({!r})"
    subprocess.run(
        [sys.executable, "-c", make.format("sdist", str(directory))],
        cwd=tree,
        check=True,
        capture_output=True,
    )
    (source,) = directory.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(directory / "unpacked", filter="data")
    (inside,) = (directory / "unpacked").iterdir()
    subprocess.run(
        [sys.executable, "-c", make.format("wheel", str(directory))],
        cwd=inside,
        check=True,
        capture_output=True,
    )
    return directory


def files_of_wheel(built: Path) -> set[str]:
    (wheel,) = built.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_source_distribution_is_the_repository(built: Path) -> None:
    (inside,) = (built / "unpacked").iterdir()
    have = {path.relative_to(inside).as_posix() for path in inside.rglob("*") if path.is_file()}
    wanted = {
        path.relative_to(built / "tree").as_posix() for path in (built / "tree").rglob("*") if path.is_file()
    }
    left = {name for name in wanted - have if not name.startswith((".git", "feednet.egg-info"))}
    assert left == set()


def test_the_wheel_has_all_modules_and_data_and_is_typed(built: Path) -> None:
    files = files_of_wheel(built)
    packages = ("feednet", *rooms.ROOMS)
    assert {f"{package}/py.typed" for package in packages} <= files
    wanted = {
        path.relative_to(built / "tree").as_posix()
        for package in packages
        for path in (built / "tree" / package).rglob("*")
        if path.is_file()
    }
    assert wanted - files == set()
    assert not [name for name in files if name.startswith(("tests/", "docs/"))]


@pytest.fixture
def site(built: Path, tmp_path: Path) -> Path:
    """A directory of packages in which the wheel is installed."""
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    return tmp_path / "site"


def test_what_was_installed_is_whole(site: Path, tmp_path: Path) -> None:
    done = python("-c", "from feednet import Log; print(Log.__module__)", cwd=tmp_path, path=site)
    assert done.stdout == "feednet.log\n", done.stderr


@pytest.mark.parametrize("room", rooms.ROOMS)
def test_another_distribution_with_a_package_of_that_name_is_noticed(
    site: Path, tmp_path: Path, room: str
) -> None:
    """pip overwrites files without a word, and removes them with the other distribution."""
    theirs = site / "other-1.0.dist-info"
    theirs.mkdir()
    (theirs / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (theirs / "RECORD").write_text(f"{room}/__init__.py,,\nother-1.0.dist-info/METADATA,,\n")
    (site / room / "__init__.py").write_text("")
    program = "from feednet import Log"
    done = python("-c", program, cwd=tmp_path, path=site)
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: feednet's package `{room}` was overwritten in {site}: install feednet again, in an"
        " environment of its own (other has one, too)"
    )
    (site / room / "__init__.py").unlink()
    done = python("-c", program, cwd=tmp_path, path=site)
    assert (
        f"ImportError: feednet's package `{room}` is gone from {site}: install feednet again" in done.stderr
    )
