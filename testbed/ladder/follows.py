"""Follow graphs as arrays: grown like a scenario's, or random for comparison."""

from itertools import chain
from random import Random
from typing import NamedTuple

import numpy as np

from testbed.ladder.networks import Network, Numbers, distinct, joined, rows
from testbed.scenario.follow_graph import grow_by_number
from testbed.scenario.sections import FollowGraph


class Follows(NamedTuple):
    """A follow graph; without self-loops or duplicates.

    Attributes:
        starts, whom: person p follows whom[starts[p] : starts[p + 1]].
    """

    starts: Numbers
    whom: Numbers

    @property
    def people(self) -> int:
        """The number of people."""
        return len(self.starts) - 1

    @property
    def counts(self) -> Numbers:
        """Number of follows of each person."""
        return np.diff(self.starts)

    @property
    def who(self) -> Numbers:
        """The followers of whom[0], whom[1] ..."""
        return np.repeat(np.arange(self.people), self.counts)

    def turned(self) -> "Follows":
        """Return the reversed graph."""
        order = np.argsort(self.whom, kind="stable")
        return _of(self.people, self.whom[order], self.who[order])

    def within(self, person: int, hops: int) -> Numbers:
        """Return the people within some hops of a person, itself excluded."""
        found = np.zeros(self.people, bool)
        frontier = np.array([person])
        for _ in range(hops):
            near = rows(self.starts, self.whom, frontier)
            is_new = np.zeros(self.people, bool)
            is_new[near] = True
            is_new &= ~found
            found |= is_new
            frontier = np.flatnonzero(is_new)
        found[person] = False
        return np.flatnonzero(found)

    def joined(self) -> Network:
        """Return the undirected network of all follows."""
        return joined(self.people, self.who, self.whom)


def grown(people: int, graph: FollowGraph, seed: int) -> Follows:
    """Return a grown follow graph."""
    lists = grow_by_number(people, people, graph, Random(f"{seed} graph"))
    starts = np.zeros(people + 1, np.int64)
    np.cumsum([len(whom) for whom in lists], out=starts[1:])
    return Follows(starts, np.fromiter(chain.from_iterable(lists), np.int64, int(starts[-1])))


def at_random(counts: Numbers, random: np.random.Generator) -> Follows:
    """Return a graph in which each follows about `counts` people, all equally likely.

    Duplicate and self draws are dropped.
    """
    people = len(counts)
    who = np.repeat(np.arange(people), counts)
    whom = random.integers(people, size=len(who))
    ends = distinct((who * people + whom)[who != whom])
    return _of(people, ends // people, ends % people)


def _of(people: int, who: Numbers, whom: Numbers) -> Follows:
    """Return a follow graph, with followers in ascending order."""
    starts = np.zeros(people + 1, np.int64)
    np.cumsum(np.bincount(who, minlength=people), out=starts[1:])
    return Follows(starts, whom)
