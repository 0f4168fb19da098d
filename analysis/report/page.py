"""The frame of every page. A page is self-contained, Plotly included; it opens without a network, and equal
rows make equal pages.
"""

import gzip
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from analysis.report.figures.plot import COLOURS, DASHES, Figure, places
from analysis.report.words.glossary import explained, occurring
from analysis.report.words.numbers import exponent, pretty

STROKES = {
    **{dash: dash.replace("px", "").replace(",", " ") for dash in DASHES if "px" in dash},
    "solid": "",
    "dash": "5 3",
    "dot": "1.6 2.4",
    "dashdot": "5 2 1.6 2",
    "longdash": "8 3",
    "longdashdot": "8 2 1.6 2",
}
"""Plotly's dashes as SVG dash arrays in the legend, 24 wide."""


SCRIPTS = ("plots.js", "network.js", "sequence.js", "journey.js", "names.js", "page.js")
"""The report's scripts, in the order in which they run."""


def page(
    template: str,
    figures: list[Figure],
    data: dict[str, Any],
    *,
    scripts: Sequence[str] = SCRIPTS,
    package: str | None = None,
    has_plots: bool = True,
    **context: Any,
) -> str:
    """Return a page from a template of `static`, or of another `package`, with figures and other `data` for
    its scripts, which are files of either.

    Plotly and the data are compressed: together they are most of a page's bytes, at a quarter of their size.
    Without `has_plots` there is no Plotly.
    """
    return (
        environment(package)
        .get_template(template)
        .render(
            css=resource("page.css"),
            scripts=[resource(name, package) for name in scripts],
            plotly=_packed_plotly() if has_plots else "",
            data=packed(
                as_json(
                    {
                        "figures": {item.id: item.spec for item in figures},
                        "captions": {item.id: [item.title, item.text] for item in figures},
                    }
                    | data
                )
            ),
            colours=COLOURS,
            dashes=[STROKES[dash] for dash in DASHES],
            places=places(context["layerings"]),
            **context,
        )
    )


@cache
def _packed_plotly() -> str:
    return packed(get_plotlyjs())


def packed(text: str) -> str:
    """Return a text as gzip in base64, deterministic."""
    return b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def unpacked(text: str) -> str:
    """Return the text of packed()."""
    return gzip.decompress(b64decode(text)).decode()


def environment(package: str | None = None) -> Environment:
    """Return the Jinja environment of the templates in `static`, and in a `package`."""
    loaders = [PackageLoader("analysis.report", "static")]
    loaders += [PackageLoader(package, "")] if package else []
    made = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["pretty"] = pretty
    made.filters["exponent"] = exponent
    made.filters["explained"] = explained
    made.filters["occurring"] = occurring
    made.filters["headings"] = headings
    return made


def headings(body: str) -> list[tuple[str, str]]:
    """Return the id and title of each folded part of a page."""
    return re.findall(r'<details class="part" id="([^"]+)">\s*<summary><h2>(.*?)</h2>', body)


def resource(name: str, package: str | None = None) -> str:
    """Return the text of a file of `static`, or else of a `package`."""
    own = files("analysis.report").joinpath("static", name)
    if package is not None and not own.is_file():
        own = files(package).joinpath(name)
    return own.read_text(encoding="utf-8")


def as_json(value: Any) -> str:
    """Return data as compact JSON."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
