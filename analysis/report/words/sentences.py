"""All sentences of findings: one registry, with an example of each.

    python -m analysis.report.words.sentences > docs/sentences.md

writes them down for readers. A sentence is a template whose places are filled by say(): names of layerings,
nodes and metrics, and figures. A figure says in `data-of` which value it is, so that a program can compute it
again from the tables (tests/analysis/page_checker.py); anything else in a sentence has no digits.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from analysis.report.words.numbers import NARROW_SPACE, pretty, two_digits, with_unit

_TAG = re.compile(r"<[^>]+>")


class Sentence(NamedTuple):
    """A template, and examples of what fills its places."""

    template: str
    example: dict[str, str]


_FORK = {"metric": "items accepted after a feed’s fork"}
_TWO = {"who": "lli and poll", "metric": "median latency", "value": "22.2 ms"}

SENTENCES = {
    # The answer as a whole.
    "answer.one": Sentence("{who} {is} the best.", {"who": "lli", "is": "is"}),
    "answer.all": Sentence(
        "{who} {is} the best, or equal to the best, in each of the {n} measures.",
        {"who": "lli", "is": "is", "n": "3"},
    ),
    "answer.split": Sentence(
        "No layering is the best in every measure: {parts}.",
        {"parts": "persistent in items accepted after a feed’s fork, lli and sync in proofs"},
    ),
    "answer.part": Sentence("{who} in {metric}", {"who": "persistent"} | _FORK),
    "answer.equal": Sentence(
        "The layerings are equal in {metrics}.", {"metrics": "median latency and bytes"}
    ),
    "answer.alone": Sentence("{who}: {parts}.", {"who": "tiny-isp", "parts": "median latency 31.3 ms"}),
    "answer.alone.part": Sentence("{metric} {value}", {"metric": "median latency", "value": "31.3 ms"}),
    "answer.only": Sentence("Only {who} delivered everything in time.", {"who": "lli"}),
    "answer.none": Sentence("No layering delivered everything in time, so costs are not compared.", {}),
    "answer.unclear": Sentence("What is best cannot be told: {parts}.", {"parts": "lli and poll in bytes"}),
    "answer.settings": Sentence(
        "Best, or equal to the best, in each of the {n} measures: {parts}.",
        {"n": "3"} | {"parts": "lli at 4 of 5 settings"},
    ),
    "answer.settings.part": Sentence("{who} at {k} of {n} settings", {"who": "lli", "k": "4", "n": "5"}),
    # The answer by each measure.
    "measure.best": Sentence(
        "{lowest} under {who}: {value}. Next: {next}, {other} ({effect}).",
        {"lowest": "lowest", "who": "persistent", "value": "5 items", "next": "notify", "other": "59"}
        | {"effect": "12 times more"},
    ),
    "measure.equal": Sentence("equal under {who}: {value}.", {"who": "all layerings", "value": "22.2 ms"}),
    "measure.unclear": Sentence(
        "{lowest} under {who}: {value}. Whether {next} ({other}) differs cannot be told.",
        {"lowest": "lowest", "next": "sync", "other": "22.9"} | _TWO,
    ),
    "measure.only": Sentence("{value} under {who}.", {"value": "22.2 ms", "who": "lli"}),
    "measure.baseline": Sentence(
        " The baseline {who}: {value} ({effect}).", {"who": "pull", "value": "106", "effect": "21 times more"}
    ),
    "measure.worst": Sentence(
        " {highest}: {who}, {value}.", {"highest": "Highest", "who": "poll", "value": "116"}
    ),
    "left": Sentence("* Compared on deliveries alone: {parts}.", {"parts": "pull and poll (fell behind)"}),
    "left.part": Sentence("{who} ({why})", {"who": "pull and poll", "why": "fell behind"}),
    "interval": Sentence(
        "{effect}; {low} to {high} by seed, n = {n}",
        {"effect": "26 % more"} | {"low": "12 %", "high": "40 %", "n": "10"},
    ),
    # What went wrong.
    "wrong.nothing": Sentence("Nothing went wrong.", {}),
    "wrong.nothing.text": Sentence(
        "Every subscriber got all it expected, {n} deliveries under each layering, in order and once.",
        {"n": "360"},
    ),
    "wrong.behind": Sentence("{who} fell behind.", {"who": "pull and poll"}),
    "wrong.behind.text": Sentence(
        "At {node} under {who} the median latency grew from {first} in the first quarter of the items to "
        "{last} in the last: it measures how long the run was.",
        {"node": "s1", "who": "pull", "first": "90 ms", "last": "2.1 s"},
    ),
    "wrong.cut": Sentence("{who} {was} cut off by the end of the run.", {"who": "poll", "was": "was"}),
    "wrong.cut.text": Sentence(
        "Items still came just before subscriptions ended: {parts}. A longer run would deliver more.",
        {"parts": "3 under poll"},
    ),
    "wrong.missing": Sentence("Items are missing.", {}),
    "wrong.missing.text": Sentence(
        "Of {expected} deliveries {parts} did not take place.", {"expected": "360", "parts": "14 under poll"}
    ),
    "wrong.missing.most": Sentence(
        " Most are missing at {node} under {who}, {n} of {expected}.",
        {"node": "s2", "who": "poll", "n": "9", "expected": "120"},
    ),
    "wrong.beyond": Sentence("Forked items were accepted.", {}),
    "wrong.beyond.text": Sentence("After the fork came {parts}.", {"parts": "116 items under poll"}),
    "wrong.unproved": Sentence("Not every subscriber got a proof of the fork.", {}),
    "wrong.unproved.text": Sentence("Without a proof: {parts}.", {"parts": "s3 under poll and long-lived"}),
    "wrong.twice": Sentence("Items were delivered twice.", {}),
    "wrong.out_of_order": Sentence("Items were delivered out of order.", {}),
    "wrong.errors": Sentence("Errors were reported to applications.", {}),
    "wrong.counts": Sentence("{parts}.", {"parts": "4 under sync, 3 under notify"}),
    "wrong.first": Sentence(
        " The first under {who}: {detail} at {node}, {time} into the run.",
        {"who": "sync", "detail": "no-route", "node": "s1", "time": "3.37 s"},
    ),
    "part": Sentence("{value} under {who}", {"value": "4", "who": "sync"}),
    "part.who": Sentence("{node} under {who}", {"node": "s3", "who": "poll"}),
    # What the answer costs.
    "cost": Sentence("What {who} costs:", {"who": "lli"}),
    "cost.part": Sentence(
        "{metric} {value}, the best (next: {next}, {effect})",
        {"metric": "bytes", "value": "1 985", "effect": "9 % more", "next": "long-lived"},
    ),
    "cost.best": Sentence(
        "{metric} {value} (best: {best}, {other})",
        {"metric": "bytes", "value": "1 985", "best": "pull", "other": "1 820"},
    ),
    "cost.equal": Sentence("{metric} {value}, equal to the best", {"metric": "bytes", "value": "1 985"}),
    "cost.baseline": Sentence("{who} against the baseline {first}:", {"who": "lli", "first": "pull"}),
    "cost.baseline.text": Sentence(
        "Better in {better} of {n} measures, equal in {equal}, worse in {worse}{where}.",
        {"better": "7", "n": "11", "equal": "3", "worse": "1", "where": " (bytes)"},
    ),
    "front": Sentence("No other layering beats these (Pareto front):", {}),
    "front.part": Sentence(
        "in {x} and {y}, {who}", {"x": "median latency", "y": "bytes", "who": "lli and persistent"}
    ),
    # Caveats.
    "note.run": Sentence(
        "One run with seed {seed}: a difference counts from the share that matters on, and nothing is known "
        "of chance.",
        {"seed": "1"},
    ),
    "note.names": Sentence(
        "{name} stands for {who}, which do the same in this run.",
        {"who": "lli and lli-selective", "name": "lli"},
    ),
    "note.tails": Sentence(
        "{n} deliveries are too few for a percentile of the slowest hundredth; it takes {least}.",
        {"n": "180", "least": "299"},
    ),
    "note.drops": Sentence(
        "The capture of {who} lost {n}: counts of packets are too low there.",
        {"who": "poll", "n": "7 frames"},
    ),
}


def say(key: str, **parts: object) -> Markup:
    """Return a sentence as markup, its places filled; plain text is escaped."""
    return Markup(SENTENCES[key].template).format(**parts)


def capital(text: Markup) -> Markup:
    """Return a text with a capital letter first, unless it begins with a name."""
    found = re.match(r"((?:<data[^>]*>)?)([^<].*)", text, re.DOTALL)
    return Markup(str(found[1]) + str(found[2])[:1].upper() + str(found[2])[1:]) if found else text


def name(text: str) -> Markup:
    """Return a name as markup: of a layering, a node, a metric."""
    return Markup("<bdi>{}</bdi>").format(text)


def figure(value: float, text: str, *of: object) -> Markup:
    """Return a figure: its value, its text, and what it is, such as "value", metric and layering."""
    told = " ".join(map(str, of))
    return Markup('<data value="{}" data-of="{}">{}</data>').format(f"{value:.12g}", told, text)


def amount(value: float, unit: str, *of: object) -> Markup:
    """Return a figure with its unit."""
    return figure(value, with_unit(value, unit) if unit else pretty(value), *of)


def share(value: float, *of: object) -> Markup:
    """Return a share as a figure in %, with two digits."""
    return figure(value, f"{two_digits(100 * value)}{NARROW_SPACE}%", *of)


def joined(texts: Sequence[str], between: str = ", ", last: str = " and ") -> Markup:
    """Join texts: "a, b and c"; plain texts are names."""
    made = [text if isinstance(text, Markup) else name(text) for text in texts]
    head = Markup(between).join(made[:-1])
    return head + Markup(last) + made[-1] if len(made) > 1 else Markup("").join(made)


def plain(text: str) -> str:
    """Return a sentence without its markup."""
    return Markup(_TAG.sub("", text)).unescape()


def _markdown() -> Iterator[str]:
    yield "# Sentences of the reports\n"
    yield "Findings of a report are made of these sentences, each with an example."
    yield "`analysis/report/words/sentences.py` has them, and writes this page:"
    yield "`python -m analysis.report.words.sentences > docs/sentences.md`.\n"
    yield "| sentence | template | example |\n|---|---|---|"
    for key, sentence in SENTENCES.items():
        made = plain(str(say(key, **sentence.example)))
        yield f"| `{key}` | {_cell(sentence.template)} | {_cell(made)} |"


def _cell(text: str) -> str:
    return text.strip().replace("|", "\\|")


if __name__ == "__main__":
    print("\n".join(_markdown()))
