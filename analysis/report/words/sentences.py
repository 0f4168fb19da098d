"""All sentences of findings: one registry, with an example of each.

    python -m analysis.report.words.sentences > docs/sentences.md

writes them down for readers. A sentence is a template whose places are filled by say(): names of layerings,
nodes and metrics, and figures. A figure says in `data-of` which value it is, so that a program can compute it
again from the tables (tests/analysis/page_checker.py); anything else in a sentence has no digits.
"""

import re
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from analysis.report.words.numbers import NARROW_SPACE, pretty, two_digits, with_unit

_TAG = re.compile(r"<[^>]+>")


SENTENCES = {
    # The answer as a whole.
    "answer.one": "Best: {who: lli}.",
    "answer.all": "Best, or equal to the best, in all {n: 3} measures: {who: lli}.",
    "answer.split": "No layering is the best in every measure: {parts: lli in latency; poll in bytes}.",
    "answer.part": "{who: persistent} in {metric: items accepted after a feed’s fork}",
    "answer.equal": "The layerings are equal in {metrics: median latency and bytes per item}.",
    "answer.equal.rest": "The layerings that delivered everything in time are equal in "
    "{metrics: median latency}.",
    "answer.alone": "{who: tiny-isp}: {parts: median latency 31.3 ms}.",
    "answer.alone.part": "{metric: median latency} {value: 31.3 ms}",
    "answer.only": "Only {who: lli} delivered everything in time.",
    "answer.none": "No layering delivered everything in time, so costs are not compared.",
    "answer.unclear": "The best layering is uncertain: {parts: lli or poll in bytes per item}.",
    "answer.settings": "Best, or equal to the best, in all {n: 3} measures: {parts: lli at 4 of 5 settings}.",
    "answer.settings.one": "Best, or equal to the best: {parts: lli at 4 of 5 settings}.",
    "answer.settings.part": "{who: lli} at {k: 4} of {n: 5} settings",
    # The answer by each measure.
    "measure.best": "{lowest: lowest} under {who: lli}: {value: 5 items}. Next: {next: poll}, {other: 59}"
    "{effect:  (12 times as much)}.",
    "measure.equal": "equal under {who: all layerings}: {value: 22.2 ms}.",
    "measure.unclear": "{lowest: lowest} under {who: lli}: {value: 22.2 ms}. "
    "The difference from {next: sync} ({other: 22.9}) may be chance.",
    "measure.only": "{value: 22.2 ms} under {who: lli}.",
    "measure.baseline": " The baseline {who: pull}: {value: 106}{effect:  (21 times as much)}.",
    "measure.worst": " {highest: Highest}: {who: poll}, {value: 116}.",
    "measure.missing": " No value for {who: ssb}.",
    "left": "* Compared by deliveries only: {parts: pull and poll (fell behind)}.",
    "left.part": "{who: pull and poll} ({why: fell behind})",
    "interval": "{effect: 26 % more}; confidence interval {low: 12 %} to {high: 40 %}, {n: 10} seeds",
    "interval.seeds": "{effect: 20 times as much}; in {agree: 10} of {n: 10} seeds",
    # What went wrong.
    "wrong.nothing": "Nothing went wrong.",
    "wrong.nothing.text": "Each subscriber got all it expected, once and in order: {n: 9} deliveries "
    "a layering.",
    "wrong.behind": "{who: pull and poll} fell behind.",
    "wrong.behind.text": "At {node: s1} under {who: pull} median latency grew from {first: 90 ms} in the "
    "first quarter of the items to {last: 2.1 s} in the last; it would be higher in a longer run.",
    "wrong.cut": "Cut off by the end of the run: {who: poll}.",
    "wrong.cut.text": "Items still came just before subscriptions ended: {parts: 3 under poll}. "
    "A longer run would deliver more.",
    "wrong.missing": "Items are missing.",
    "wrong.missing.text": "Missing of {expected: 360} expected deliveries: {parts: 14 under poll}.",
    "wrong.missing.most": " Most are missing at {node: s2} under {who: poll}, {n: 9} of {expected: 120}.",
    "wrong.beyond": "Items after the fork were accepted.",
    "wrong.beyond.text": "Accepted after the fork: {parts: 116 items under poll}.",
    "wrong.unproved": "Not every subscriber got a proof of the fork.",
    "wrong.unproved.text": "Without a proof: {parts: s3 under poll and long-lived}.",
    "wrong.twice": "Items were delivered twice.",
    "wrong.out_of_order": "Items were delivered out of order.",
    "wrong.errors": "Errors were reported to applications.",
    "wrong.counts": "{parts: 4 under sync, 3 under notify}.",
    "wrong.first": " First under {who: sync}: {detail: no-route} at {node: s1}, {time: 3.37 s} into the run.",
    "part": "{value: 4} under {who: sync}",
    "part.who": "{node: s3} under {who: poll}",
    # What the answer costs.
    "cost": "Costs of {who: lli}:",
    "cost.part": "{metric: bytes per item} {value: 1 985}, the best; next: {next: poll}{effect:  (9 % more)}",
    "cost.best": "{metric: bytes per item} {value: 1 985} (best: {best: pull}, {other: 1 820})",
    "cost.equal": "{metric: bytes per item} {value: 1 985}, equal to the best",
    "cost.baseline": "{who: lli} against the baseline {first: pull}:",
    "cost.baseline.text": "Better in {better: 7} of {n: 11} measures, equal in {equal: 3}, "
    "worse in {worse: 1}{where:  (bytes per item)}.",
    "front": "Not beaten in both (Pareto front):",
    "front.part": "{who: lli and persistent} in {x: median latency} and {y: bytes per item}",
    # Caveats.
    "note.run": "One run (seed {seed: 1}): chance is not ruled out. Differences below the question's "
    "threshold count as equal.",
    "note.names": "{name: lli} stands for {who: lli and lli-selective}, which do the same in this run.",
    "note.tails": "A percentile of the slowest hundredth needs {least: 299} deliveries; "
    "no layering has more than {n: 180}.",
    "note.drops": "The capture of {who: poll} lost {n: 7 frames}: counts of packets are too low there.",
    # Several runs of a scenario.
    "study.whole": "Everything arrived.",
    "study.whole.text": "Each layering delivered at least {least: 99.5} % of the expected items"
    "{where: , whatever the loss}.",
    "study.only": "Only {who: lli and persistent} delivered everything.",
    "study.lacking": "{k: 3} of {n: 7} layerings did not deliver everything.",
    "study.lacking.text": "Lowest: {parts: poll 91.2 ± 2.1 % at 5 %}{more: ; and 4 more}.",
    "study.lacking.part": "{who: poll} {value: 91.2 ± 2.1} %{where:  at 5 %}",
    "study.networks": "{metric: Median latency}, {other: Mininet} against {one: emulator}:",
    "study.networks.text": "{parts: lli about the same (33 ms, not 32 ms)}.",
    "study.networks.part": "{who: lli} {how: about the same} ({became: 33 ms}, not {was: 32 ms})",
    "study.measure": "{where: At 1 and 2 %}: {text: lowest under lli: 22.2 ms.}",
    "study.measure.last": "{where: At 1 and 2 %} (figures: {at: 2 %}): {text: lowest under lli: 22.2 ms.}",
    "study.growth": "{who: lli} depends least on the {what: loss}.",
    "study.effect": "Effect of the {what: credit}:",
    "study.growth.text": "From {low: 0 %} to {high: 5 %}, the median latency of {who: lli} is multiplied by "
    "{ratio: 1.2}{other: , that of poll by 4}.",
    "study.growth.other": ", that of {who: poll} by {ratio: 4}",
    "study.starred": "Latencies are those of items that arrived. Those with a star are not compared: "
    "{parts: poll at 5 % (delivered 91 %)}{more: , and 2 more}.",
    "study.starred.part": "{who: poll}{where:  at 5 %} ({why: delivered 91 %})",
    "study.seeds": "Not all settings ran with the same seeds: their workloads differ, too.",
    "study.once": "One run of each setting: chance is not ruled out.",
    # Captures of any origin.
    "capture.nothing": "Nothing in these captures is NDN, or none of it can be read.",
    "capture.in": "{value: 3 %} in {run: a}",
    "capture.pair": "Most traffic:",
    "capture.pair.part": "{where: in a }{one: 10.0.0.1} and {other: 10.0.0.2} exchange {share: 71 %} of the "
    "bytes of {n: 6} pairs",
    "capture.payload": "Payload:",
    "capture.payload.text": "{shares: 74 %} of the bytes are data of applications; protocols add the rest.",
    "capture.trips": "Round trips:",
    "capture.trips.text": "half of all answers came within {times: 12 ms, 95 % within 31 ms (n = 840)}.",
    "capture.trips.tail": ", {share: 95 %} within {time: 31 ms}",
    "capture.trips.part": "{half: 12 ms}{tail: , 95 % within 31 ms} (n = {n: 840})",
    "capture.answered": "Every Interest was answered:",
    "capture.answered.text": "{n: 840} in all, by Data or by a Nack.",
    "capture.unanswered": "Unanswered:",
    "capture.unanswered.text": "{shares: 3 %} of the Interests got no answer in their lifetime"
    "{where: ; /a has 80 % of them}.",
    "capture.unanswered.where": "; {prefix: /a} has {share: 80 %} of them",
    "capture.nacks": "Nacks:",
    "capture.nacks.text": "{count: 12 Interests} ended with one ({reasons: NoRoute 12}).",
    "capture.again": "Retransmissions:",
    "capture.again.text": "{shares: 4 %} of the Interests repeat one that had no answer yet.",
    "capture.pit": "PIT:",
    "capture.pit.text": "{parts: a held at most 7 entries, 1.2 s into the capture}{more: (the highest)}.",
    "capture.pit.part": "{node: a} held at most {count: 7 entries}, {when: 1.2 s into the capture}",
    "capture.lives": "Lifetimes of state:",
    "capture.lives.text": "half of all PIT entries lived less than {times: 31 ms}{ends: ; 98 % satisfied}.",
    "capture.shared": "Aggregation:",
    "capture.shared.text": "{shares: 31 %} of the PIT entries had Interests from several neighbours.",
    "capture.long": "Long-lived Interests:",
    "capture.long.text": "{asks: 31} of them kept {n: 4 subscriptions}{ratio: , 12 items for each}. "
    "{renewals: 9} extended an earlier range; a node owed at most {peak: 64 items}.",
    "capture.long.ratio": ", {items: 12 items} for each",
    "capture.feeds": "Feeds:",
    "capture.feeds.text": "{feeds: 4 feeds}, {items: 120 items}{most:  at most}; {end: every subscriber has "
    "the newest item at the end}.",
    "capture.feeds.whole": "every subscriber has the newest item at the end",
    "capture.feeds.behind": "at the end the newest item is lacking in {n: 3} places; {node: b} is "
    "{lag: 7} behind in {run: a}",
}
"""Templates. A place has its name and what stands there in an example: {who: lli}."""

_PLACE = re.compile(r"\{(\w+): ([^}]*)\}")


def say(key: str, **parts: object) -> Markup:
    """Return a sentence as markup, its places filled; plain text is escaped."""
    return Markup(_PLACE.sub(r"{\1}", SENTENCES[key])).format(**parts)


def capital(text: Markup) -> Markup:
    """Return a text with a capital letter first, unless it begins with a name."""
    found = re.match(r"((?:<data[^>]*>)?)([^<].*)", text, re.DOTALL)
    return Markup(str(found[1]) + str(found[2])[:1].upper() + str(found[2])[1:]) if found else text


def name(text: str) -> Markup:
    """Return a name as markup: of a layering, a node, a metric. Several words may go over two lines."""
    return Markup('<bdi class="words">{}</bdi>' if " " in text else "<bdi>{}</bdi>").format(text)


def figure(value: float, text: str, *of: object) -> Markup:
    """Return a figure: its value, its text, and what it is, such as "value", metric and layering."""
    told = " ".join(map(str, of))
    return Markup('<data value="{}" data-of="{}">{}</data>').format(f"{value:.12g}", told, text)


def amount(value: float, unit: str, *of: object) -> Markup:
    """Return a figure with its unit."""
    return figure(value, with_unit(value, unit) if unit else pretty(value), *of)


def count(number: int, *of: object) -> Markup:
    """Return a count as a figure."""
    return figure(number, pretty(number), *of)


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
        template, example = (_PLACE.sub(to, sentence).strip() for to in (r"{\1}", r"\2"))
        yield f"| `{key}` | {template} | {example} |"


if __name__ == "__main__":
    print("\n".join(_markdown()))
