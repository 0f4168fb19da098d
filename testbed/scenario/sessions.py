"""Sessions of people, drawn from the seed, as changes of links."""

from collections.abc import Iterable, Iterator
from random import Random

from base.units import MS
from testbed.layerings.nodes.workload import Workload
from testbed.scenario.model import Scenario
from testbed.scenario.sections import LAST_MS, Change, Sessions


def session_changes(scenario: Scenario, load: Workload) -> list[Change]:
    """Return the changes of links by sessions, in order of time.

    People are the nodes that publish or follow. The links of an offline one are down, and both ends of a link
    notice. All are online until the first publication and from the last one on.
    """
    sessions = scenario.sessions
    if sessions is None:
        return []
    first = min(feed.times[0] for feed in load.feeds) / MS
    last = min(max(feed.times[-1] for feed in load.feeds) // MS, LAST_MS)
    people = dict.fromkeys([*scenario.sources, *load.follows])
    absences = {
        person: [
            *_absences(sessions, first, last, Random(f"{scenario.seed} sessions {person}")),
            *_nights(sessions, first, last, number % sessions.zones),
        ]
        for number, person in enumerate(people)
    }
    changes = []
    for link in scenario.network.links:
        away = [each for end in (link.a, link.b) for each in absences.get(end, ())]
        name = f"{link.a} {link.b}"
        for begin, end in _merged(away):
            changes += [Change(at_ms=begin, link_down=name), Change(at_ms=end, link_up=name)]
    return sorted(changes, key=lambda change: change.at_ms or 0.0)


def _absences(sessions: Sessions, first: float, last: int, random: Random) -> Iterator[tuple[float, float]]:
    """Yield the offline intervals of a person, ms: both kinds of times are drawn exponentially."""
    time = first
    while (time := time + random.expovariate(1 / sessions.online_ms)) < last:
        back = min(time + random.expovariate(1 / sessions.offline_ms), last)
        yield round(time, 3), round(back, 3)
        time = back


def _nights(sessions: Sessions, first: float, last: int, zone: int) -> Iterator[tuple[float, float]]:
    """Yield the nights of a zone, ms."""
    if sessions.day_ms is None or not sessions.night:
        return
    end = first + (1 - zone / sessions.zones) * sessions.day_ms
    while (begin := end - sessions.night * sessions.day_ms) < last:
        yield round(max(begin, first), 3), round(min(end, last), 3)
        end += sessions.day_ms


def _merged(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the union of intervals as disjoint ones."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
