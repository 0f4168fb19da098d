"""Hooks of MkDocs (mkdocs.yml): they make a site of documents that are written for the repository, too."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository outside docs/, and the pages that they are."""

_LINK_OUT = re.compile(rf"\]\(\.\./({'|'.join(map(re.escape, OUTSIDE))})")
_CODE_OF_A_CELL = re.compile(r"(?<=<code>)[^<]*(?=</code>(?:(?!<td).)*</td>)")
_END_OF_A_PART = re.compile(r"([/_.,=])(?=[a-z])")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside docs/."""
    for name, page in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to these pages, and leave brackets in tables alone."""
    if page.is_homepage:  # it is a table of contents itself
        page.meta["hide"] = ["navigation"]
    text = _LINK_OUT.sub(lambda found: f"]({OUTSIDE[found[1]]}", markdown)
    return "\n".join(_plain(line) if line.startswith("|") else line for line in text.split("\n"))


def on_page_content(html: str, **_: Any) -> str:
    """Let code in tables break after a part of a path or a name, rather than inside a word."""
    return _CODE_OF_A_CELL.sub(lambda found: _END_OF_A_PART.sub(r"\1<wbr>", found[0]), html)


def on_post_page(output: str, **_: Any) -> str:
    """Name the search for screen readers; the theme gives its dialog no name."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def _plain(row: str) -> str:
    """Return a row of a table whose `[First] [Evidence]` is no link, as on GitHub."""
    parts = row.split("`")
    parts[::2] = [part.replace("] [", "] \\[") for part in parts[::2]]
    return "`".join(parts)
