"""Write docs/library.md: the scenarios that come with feednet, each with what to look at and its picture.

    python docs/library.py

The text is in the scenarios' files. `make pictures` makes the pictures; a scenario without one is listed all
the same.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from testbed.library import scenarios
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load

DOCS = Path(__file__).parent

_HEAD = """# The scenario library

`feednet run NAME` runs one of these. `feednet list` prints this list, and `feednet describe NAME` draws a
scenario's network and tells what will happen in it. A picture shows two parts of a scenario's report, as
`feednet run NAME --net emulated` makes it: the answer to the scenario's question, and the latencies.
`python docs/library.py` writes this page, `make pictures` the pictures.
"""


def document() -> str:
    """Return the page."""
    groups: dict[str, list[Scenario]] = defaultdict(list)
    for name in scenarios():
        scenario = load(name)
        groups[scenario.group].append(scenario)
    return "\n".join([_HEAD, *_parts(groups)])


def _parts(groups: dict[str, list[Scenario]]) -> Iterator[str]:
    for group in sorted(groups):
        yield f"## {group[0].upper()}{group[1:]}\n"
        for scenario in groups[group]:
            yield f"### `{scenario.name}`\n"
            yield f"**{scenario.title}.** {scenario.about}\n"
            if scenario.question is not None:
                yield f"*{scenario.question.text}*\n"
            yield f"Compares {', '.join(scenario.layerings)}.\n"
            picture = f"scenarios/{scenario.name}.png"
            if (DOCS / picture).exists():
                alt = f"Parts of a report of {scenario.name}: the answer to its question, and latencies"
                yield f'<img src="{picture}" alt="{alt}" width="300">\n'


if __name__ == "__main__":
    (DOCS / "library.md").write_text(document(), encoding="utf-8")
