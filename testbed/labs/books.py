"""The forms of a lab, all from its one text: a notebook, a page, the code alone, a file for answers."""

import json
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import mistune

from testbed.labs.lab import Lab, Part, questions_of


def notebook(lab: Lab) -> str:
    """Return the notebook (nbformat 4.5), without outputs."""
    cells = [_cell("markdown", f"# {lab.title}")]
    for part in lab.parts:
        if part.kind == "question":
            cells.append(_cell("markdown", _listed(part)))
        else:
            cells.append(_cell("code" if part.kind == "python" else "markdown", part.text))
    cells += [_cell("markdown", "## Check"), *(_cell("code", text) for text in last_cells(lab))]
    for number, cell in enumerate(cells):
        cell["id"] = f"{lab.name}-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def last_cells(lab: Lab) -> tuple[str, str]:
    """Return the cells that end a notebook: the answers to fill in, and their check."""
    rows = "\n".join(f'    "{name}": None,' for name in lab.questions)
    return f"answers = {{\n{rows}\n}}", f'from feednet.labs import check\n\ncheck("{lab.name}", answers)'


def script(lab: Lab) -> str:
    """Return the code alone, for editors that run it cell by cell."""
    return "\n\n".join(f"# %%\n{cell}" for cell in lab.cells) + "\n"


def answers(lab: Lab) -> str:
    """Return a TOML file of answers to fill in."""
    title = lab.title if lab.title.endswith("?") else f"{lab.title}."
    lines = [f"# {title} Fill in, then: feednet lab check {lab.name}"]
    lines += [f'\n# {question.ask}\n{name} = ""' for name, question in lab.questions.items()]
    return "\n".join(lines) + "\n"


def page(lab: Lab) -> str:
    """Return the page: HTML that opens without a network."""
    markdown = mistune.create_markdown(escape=False, plugins=["table"])
    text = "\n\n".join(
        f"```python\n{part.text}\n```"
        if part.kind == "python"
        else _listed(part)
        if part.kind == "question"
        else part.text
        for part in lab.parts
    )
    template = Template((files("testbed.labs") / "page.html").read_text(encoding="utf-8"))
    body = str(markdown(text)).replace("<pre>", '<pre tabindex="0">')  # scrolled by keys, too
    return template.substitute(title=escape(lab.title), name=lab.name, body=body)


def _listed(part: Part) -> str:
    """Return questions as Markdown."""
    return "\n".join(f"- **{name}**: {question.ask}" for name, question in questions_of(part).items())


def _cell(kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": "", "metadata": {}, "source": source.splitlines(True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
