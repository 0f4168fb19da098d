"""Each public method says what it does, or is that of an interface that says so."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from test_architecture import ROOT, modules

Method = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def classes() -> dict[str, list[tuple[Path, ast.ClassDef]]]:
    """Return the classes of the product by name, each with its file."""
    found = defaultdict(list)
    for path in [*modules(), *(ROOT / "docs").glob("*.py"), ROOT / "setup.py"]:
        if not path.name.startswith("test_"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append((path.relative_to(ROOT), node))
    return found


def bases(node: ast.ClassDef) -> Iterator[str]:
    """Yield the names of a class's bases, without their modules and parameters."""
    for base in node.bases:
        named = base.value if isinstance(base, ast.Subscript) else base
        yield named.attr if isinstance(named, ast.Attribute) else ast.unparse(named)


def methods(node: ast.ClassDef) -> Iterator[Method]:
    return (each for each in node.body if isinstance(each, Method))


def parameters(method: Method) -> str:
    """Return the names of a method's parameters."""
    return " ".join(each.arg for each in ast.walk(method.args) if isinstance(each, ast.arg))


PLAIN = {"NamedTuple", "Protocol", "Generic", "ABC", "BaseModel", "Enum", "IntEnum", "StrEnum"}
PLAIN |= {"Exception", "ValueError", "OSError", "tuple"}
"""Bases of others that have no methods to be overridden."""


def lineage(node: ast.ClassDef) -> list[ast.ClassDef]:
    """Return a class, its bases, theirs, and so on."""
    found = [node]
    for each in found:
        found += [base for name in bases(each) for _, base in classes().get(name, ()) if base not in found]
    return found


def family(node: ast.ClassDef) -> list[ast.ClassDef]:
    """Return the lineages of a class, and of those that its docstrings name: interfaces, mostly."""
    own = lineage(node)
    named = {word for each in own for word in re.findall(r"\w+", ast.get_docstring(each) or "")}
    return own + [each for name in named for _, known in classes().get(name, ()) for each in lineage(known)]


def is_told(method: Method, node: ast.ClassDef) -> bool:
    """Return whether a relative of a method's class says what it does, or a base of others may."""
    about = method.name, parameters(method)
    if any(base not in classes() and base not in PLAIN for each in lineage(node) for base in bases(each)):
        return True
    if any(ast.unparse(each) == f"{method.name}.setter" for each in method.decorator_list):
        return True  # told where it is read
    is_property = any(ast.unparse(each).endswith("property") for each in method.decorator_list)
    for each in family(node):
        if is_property and re.search(rf"\b{method.name}\b", ast.get_docstring(each) or ""):
            return True  # among the class's attributes
        if any(about == (own.name, parameters(own)) and ast.get_docstring(own) for own in methods(each)):
            return True
    return False


def test_public_methods():
    silent = [
        f"{file}: {node.name}.{method.name}"
        for found in classes().values()
        for file, node in found
        for method in methods(node)
        if not method.name.startswith("_") and not node.name.startswith("_")
        if not ast.get_docstring(method) and not is_told(method, node)
    ]
    assert not silent, "\n".join(silent)


@pytest.mark.parametrize("about", ["", '    """Raises StoreError."""\n'])
def test_a_silent_method_is_found(about):
    """Also in a class that names one of another project's making."""
    [lone] = ast.parse(f"class Lone:\n{about}    def act(self, now: int) -> int:\n        return now").body
    assert isinstance(lone, ast.ClassDef)
    [method] = methods(lone)
    assert not is_told(method, lone)
