"""The cases of the self-test: for each a link, the frames sent over it, and the expected effects."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import NamedTuple

from base.units import MS
from testbed.verify.links import checks
from testbed.verify.links.checks import Check
from testbed.verify.links.transits import Transit
from topologies.link import LinkParameters
from topologies.model import Link

FRAME = 1250
"""Bytes of a frame: 1 ms at 10 Mbit/s."""

Send = tuple[int, int]
"""Time of a frame, ns after the beginning of its case, and its length in bytes."""


class Step(NamedTuple):
    """An event of the link at a time, ns after the beginning of its case: new parameters, or a break."""

    at: int
    to: LinkParameters | None


class Case(NamedTuple):
    """A link, frames, and judgements.

    Attributes:
        name: of the case.
        link: its initial parameters.
        sends: the frames, in order of time.
        judge: judges the transits.
        step: event during the case.
        by_netem: netem supports it; else Mininet needs the relay.
    """

    name: str
    link: LinkParameters
    sends: Sequence[Send]
    judge: Callable[[Sequence[Transit]], list[Check]]
    step: Step | None = None
    by_netem: bool = True

    @property
    def length(self) -> int:
        """Duration, ns: by then the last frame has arrived."""
        link = self.step.to if self.step is not None and self.step.to is not None else self.link
        waiting = sum(size for _, size in self.sends) * max(link.ns_per_byte, self.link.ns_per_byte)
        return round(self.sends[-1][0] + waiting + (self.link.delay_ms + 5 * self.link.jitter_ms + 50) * MS)

    def topology_link(self, a: str, b: str) -> Link:
        """Return the link between two nodes."""
        return Link(a, b, **asdict(self.link))


def cases(frames: int) -> list[Case]:
    """Return all cases; random ones send `frames` frames."""
    return [
        _plain(),
        *(_rate(mbit) for mbit in (1.0, 10.0, 50.0)),
        *(_delay(ms) for ms in (2.0, 20.0, 100.0)),
        *(_jitter(name, frames) for name in ("uniform", "normal", "pareto", "paretonormal")),
        _loss(LinkParameters(loss_percent=2.0), frames),
        _loss(LinkParameters(loss_percent=5.0, loss_burst=4.0), frames),
        _loss(
            LinkParameters(loss_percent=5.0, loss_burst=10.0, loss_bad_percent=40.0, loss_good_percent=1.0),
            frames,
        ),
        _duplication(frames),
        _reordering(frames),
        _queue(),
        _rate_step(),
        _break(),
    ]


def _steady(count: int, gap_ns: int) -> list[Send]:
    return [(number * gap_ns, 200) for number in range(count)]


def _plain() -> Case:
    def judge(transits: Sequence[Transit]) -> list[Check]:
        return [
            checks.number("frames that arrive", sum(len(each.received) for each in transits), len(transits)),
            checks.delay(transits, 0.0),
        ]

    return Case("nothing", LinkParameters(), _steady(500, MS), judge)


def _rate(mbit: float) -> Case:
    count = round(mbit * 40)
    link = LinkParameters(bw_mbit=mbit, max_queue_size=count)
    return Case(f"rate {mbit:g} Mbit/s", link, [(0, FRAME)] * count, lambda seen: [checks.rate(seen, mbit)])


def _delay(ms: float) -> Case:
    return Case(
        f"delay {ms:g} ms",
        LinkParameters(delay_ms=ms),
        _steady(500, MS),
        lambda seen: [checks.delay(seen, ms)],
    )


def _jitter(distribution: str, frames: int) -> Case:
    link = LinkParameters(delay_ms=30.0, jitter_ms=5.0, jitter_distribution=distribution)
    return Case(
        f"jitter 5 ms {distribution}", link, _steady(frames, MS), lambda seen: [checks.jitter(seen, link)]
    )


def _loss(link: LinkParameters, frames: int) -> Case:
    asked = link.loss_percent / 100
    in_bursts = link.loss_burst is not None

    def judge(transits: Sequence[Transit]) -> list[Check]:
        lost = [not each.received for each in transits]
        if not in_bursts:
            return [checks.share("loss", sum(lost), len(lost), asked)]
        after = [now for then, now in pairwise(lost) if then]
        return [
            checks.share("loss", sum(lost), len(lost), asked, inflation=_inflation(link)),
            checks.share("loss after a loss", sum(after), len(after), link.loss_again),
        ]

    words = f"loss {link.loss_percent:g} %"
    if in_bursts:
        words += f" in bursts of {link.loss_burst:g}"
        words += (
            f", {link.loss_bad_percent:g} and {link.loss_good_percent:g} %" if link.loss_good_percent else ""
        )
    return Case(words, link, _steady(4 * frames, MS // 4), judge)


def _inflation(link: LinkParameters) -> float:
    """Return the factor by which bursts raise the variance of the number of losses over independent ones.

    The link's state is a two-state Markov chain, whose correlation decays geometrically.
    """
    asked, ends, is_bad = link.loss_percent / 100, 1 / (link.loss_burst or 1), link.bad_share
    correlation = 1 - ends - ends * is_bad / (1 - is_bad)
    by_state = ((link.loss_bad_percent - link.loss_good_percent) / 100) ** 2 * is_bad * (1 - is_bad)
    return 1 + 2 * by_state / (asked * (1 - asked)) * correlation / (1 - correlation)


def _duplication(frames: int) -> Case:
    def judge(transits: Sequence[Transit]) -> list[Check]:
        twice = sum(len(each.received) == 2 for each in transits)
        return [checks.share("frames that arrive twice", twice, len(transits), 0.05)]

    return Case("duplication 5 %", LinkParameters(duplicate_percent=5.0), _steady(frames, MS), judge)


def _reordering(frames: int) -> Case:
    def judge(transits: Sequence[Transit]) -> list[Check]:
        early = sum(bool(each.received) and each.received[0] - each.sent < 10 * MS for each in transits)
        return [checks.share("frames that overtake", early, len(transits), 0.1)]

    link = LinkParameters(delay_ms=20.0, reorder_percent=10.0)
    return Case("reordering 10 %", link, _steady(frames, MS), judge)


def _queue() -> Case:
    def judge(transits: Sequence[Transit]) -> list[Check]:
        return [checks.number("of a burst of 30 arrive", sum(bool(each.received) for each in transits), 10)]

    return Case("queue of 10", LinkParameters(bw_mbit=1.0, max_queue_size=10), [(0, FRAME)] * 30, judge)


def _rate_step() -> Case:
    def judge(transits: Sequence[Transit]) -> list[Check]:
        return [
            checks.rate(transits[:200], 10.0, "rate before"),
            checks.rate(transits[200:], 2.0, "rate after"),
        ]

    link = LinkParameters(bw_mbit=10.0, max_queue_size=500)
    step = Step(400 * MS, LinkParameters(bw_mbit=2.0, max_queue_size=500))
    sends = [(0, FRAME)] * 200 + [(500 * MS, FRAME)] * 50
    return Case("a step from 10 to 2 Mbit/s", link, sends, judge, step)


def _break() -> Case:
    def judge(transits: Sequence[Transit]) -> list[Check]:
        before = sum(bool(each.received) for each in transits[:50])
        after = sum(bool(each.received) for each in transits[50:])
        return [
            checks.number("of 50 arrive before", before, 50),
            checks.number("of 50 arrive after", after, 0),
        ]

    sends = [*_steady(50, MS), *((200 * MS + at, size) for at, size in _steady(50, MS))]
    return Case("a break", LinkParameters(delay_ms=5.0), sends, judge, Step(150 * MS, None))
