"""The paper: its numbers are those of the results, and it has no others."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from testbed.study import paper
from testbed.study.spec import load

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "paper" / "paper.tex").read_text(encoding="utf-8")
VALUE = re.compile(r"\\val\{([^}]*)\}\{([^}]*)\}\{([^}]*)\}")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
STUDIES = re.findall(r"testbed\.study\.paper ([a-z ]+) paper/build", MAKEFILE)[0].split()
"""Those of `make paper`."""


def test_each_number_of_the_paper_exists() -> None:
    parts = [paper.read(name) for name in STUDIES]
    keys = [claim.key for part in parts for claim in part.decided]
    assert len({*keys}) == len(keys), "two studies share the key of a claim"
    known = paper.macros(parts)
    used = VALUE.findall(TEXT)
    assert len(used) > 20
    assert {*used} <= known.keys()


def test_no_result_is_typed() -> None:
    """Results, and the abstract, have no digits but those of names."""
    results = TEXT[TEXT.index(r"\section{Results}") : TEXT.index(r"\begin{thebibliography}")]
    abstract = TEXT[TEXT.index(r"\begin{abstract}") : TEXT.index(r"\end{abstract}")].replace("in 2019", "")
    for part in (results, abstract):
        said = re.sub(r"95th percentile", "", VALUE.sub("", part))
        assert re.findall(r".*\d.*", said) == []


def test_the_parts_of_a_paper_are_written(tmp_path: Path) -> None:
    paper.write(STUDIES, tmp_path)
    studies = [load(name)[0] for name in STUDIES]
    drawn = {name for study in studies for name in study.figures}
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"numbers.tex", "claims.tex", *(f"{name}.pdf" for name in drawn)}
    figures = set(re.findall(r"\\includegraphics\[.*?\]\{(.*?)\}", TEXT))
    assert figures == drawn
    table = (tmp_path / "claims.tex").read_text(encoding="utf-8")
    assert table.count(r"\multicolumn") == sum(len(study.claims) for study in studies)
    assert not re.search(r"(?<!\\)[%&#_](?! |$)", table.replace("&", "& ")), "what LaTeX reads as its own"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_the_paper_is_built(tmp_path: Path) -> None:
    paper.write(STUDIES, tmp_path / "build")
    shutil.copy(ROOT / "paper" / "paper.tex", tmp_path)
    words = [
        "pdflatex",
        "-interaction=batchmode",
        "-halt-on-error",
        "-output-directory",
        "build",
        "paper.tex",
    ]
    for _ in range(2):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, (tmp_path / "build" / "paper.log").read_text(errors="replace")[-2000:]
    log = (tmp_path / "build" / "paper.log").read_text(errors="replace")
    assert "undefined" not in log
    assert (tmp_path / "build" / "paper.pdf").read_bytes().startswith(b"%PDF")
