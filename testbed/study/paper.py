"""The results of studies for LaTeX: a macro for each figure, a table of all claims, and the studies' figures.

    python -m testbed.study.paper NAME... DIRECTORY

writes `numbers.tex`, `claims.tex` and a PDF for each figure. In a text, `\\val{KEY}{PLACE}{PART}` is a part
of what claim KEY expects at PLACE, from 1 on: of, to or effect, with "-ci" for its interval; n or verdict. At
PLACE 0 it is the claim's verdict; `\\val{study}{0}{PART}` is about all studies. What does not exist is an
error of LaTeX. So no number has to be typed.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from analysis.report.paper.tables import escaped
from testbed.study.decide import Decided, Found, Verdict, decide
from testbed.study.figures import write_figures
from testbed.study.pages import interval, results_path, sides, tested
from testbed.study.results import Results
from testbed.study.spec import StudySpec, load

_HEAD = r"""% Written by python -m testbed.study.paper: do not edit.
\newcommand{\val}[3]{\ifcsname study:#1:#2:#3\endcsname\csname study:#1:#2:#3\endcsname\else
  \PackageError{study}{the study has no figure #1 #2 #3}{}\fi}
"""


class Part(NamedTuple):
    """A study with its results, and the decided claims."""

    study: StudySpec
    results: Results
    decided: list[Decided]


def read(name: str) -> Part:
    """Read a study and its results, and decide its claims. Raises UserError."""
    study, path = load(name)
    results = Results.read(results_path(path))
    return Part(study, results, [decide(study, results, key) for key in study.claims])


def macros(parts: Sequence[Part]) -> dict[tuple[str, str, str], str]:
    """Return what `\\val` gives, in LaTeX, by its three arguments. No two studies may share a claim's key."""
    decided = [claim for part in parts for claim in part.decided]
    found = {
        (claim.key, str(place), part): text
        for claim in decided
        for place, each in enumerate(claim.found, start=1)
        for part, text in _parts(each)
    }
    found |= {(claim.key, "0", "verdict"): _verb(claim.verdict) for claim in decided}
    counts = {str(verdict): sum(each.verdict is verdict for each in decided) for verdict in Verdict}
    found |= {("study", "0", name.replace(" ", "-")): str(count) for name, count in counts.items()}
    found["study", "0", "claims"] = str(len(decided))
    found["study", "0", "runs"] = f"{sum(len({*_runs(part.results)}) for part in parts):,}"
    found["study", "0", "seeds"] = _same(str(part.study.seeds) for part in parts)
    found["study", "0", "confidence"] = _same(f"{part.study.confidence * 100:g} %" for part in parts)
    return {place: escaped(text) for place, text in found.items()}


def _runs(results: Results) -> Iterator[tuple[str, str, str, int]]:
    """Yield what identifies the run of each value."""
    for row, known in results.values.items():
        for seed in known:
            yield row.runs, row.layering, row.setting, seed


def _verb(verdict: Verdict) -> str:
    """Return a verdict as the verb of a claim."""
    return "holds in part" if verdict is Verdict.IN_PART else str(verdict)


def _same(values: Iterable[str]) -> str:
    """Return the value that all have; raise ValueError if they differ."""
    [value] = set(values)
    return value


def _parts(found: Found) -> Iterator[tuple[str, str]]:
    yield "verdict", str(found.verdict)
    known = dict(zip(("of", "to"), found.sides, strict=False))
    if found.effect is not None:
        known["effect"] = found.effect
        yield "n", str(found.effect.n)
    for name, value in known.items():
        whole = interval(value)
        yield name, whole.partition(" [")[0]
        yield f"{name}-ci", whole


def claims_table(parts: Sequence[Part]) -> str:
    """Return all claims as a table of several pages."""
    lines = [
        r"\begin{longtable}{@{}p{0.25\textwidth}p{0.33\textwidth}p{0.23\textwidth}p{0.1\textwidth}@{}}",
        r"\toprule claim, and what it expects & figures & tested & verdict \\ \midrule \endhead",
    ]
    for study, each in ((part.study, each) for part in parts for each in part.decided):
        source = f" ({each.claim.source})" if each.claim.source else ""
        text = _plain(each.claim.text + source)
        wide = rf"\multicolumn{{3}}{{@{{}}p{{0.84\textwidth}}}}{{\textbf{{{text}}}}}"
        lines.append(rf"{wide} & \textbf{{{each.verdict}}} \\")
        for found in each.found:
            cells = (found.expected.says, sides(study, found), tested(found, 0), str(found.verdict))
            lines.append(" & ".join(map(_plain, cells)) + r" \\")
        lines.append(r"\addlinespace")
    return "\n".join([*lines, r"\bottomrule", r"\end{longtable}"]) + "\n"


def _plain(text: str) -> str:
    """Return a text of Markdown in LaTeX."""
    text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text)
    return re.sub(r"`(.*?)`", r"\\texttt{\1}", escaped(text))


def write(names: Sequence[str], directory: Path) -> None:
    """Write the parts of a paper from the results of studies. Raises UserError and OSError."""
    parts = [read(name) for name in names]
    directory.mkdir(parents=True, exist_ok=True)
    defined = "".join(
        f"\\expandafter\\def\\csname study:{':'.join(place)}\\endcsname{{{text}}}\n"
        for place, text in macros(parts).items()
    )
    (directory / "numbers.tex").write_text(_HEAD + defined, encoding="utf-8")
    (directory / "claims.tex").write_text(claims_table(parts), encoding="utf-8")
    for part in parts:
        write_figures(part.study, part.results, directory)


if __name__ == "__main__":
    write(sys.argv[1:-1], Path(sys.argv[-1]))
