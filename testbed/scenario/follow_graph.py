"""A growing follow graph, with few hubs, and with friends who are friends.

People join one after the other. Each follows some of the existing people, with probability in proportion to
their followers: so the numbers of followers have a power law (Barabási and Albert, "Emergence of scaling in
random networks", 1999). Some follows go to somebody followed by the previous choice, which closes triangles
(Holme and Kim, "Growing scale-free networks with tunable clustering", 2002). Some are returned, so that hubs
follow many, too.
"""

from bisect import insort
from collections.abc import Collection, Sequence
from random import Random

from testbed.scenario.sections import FollowGraph


def grow(
    authors: Sequence[str], readers: Collection[str], graph: FollowGraph, random: Random
) -> dict[str, list[str]]:
    """Return the follows of all people, in the order of their choice.

    Only `authors` are followed. Readers who are no authors join last.
    """
    known = {*authors}
    others = [reader for reader in readers if reader not in known]
    joining = [*random.sample(authors, len(authors)), *random.sample(others, len(others))]
    follows = grow_by_number(len(joining), len(authors), graph, random)
    return {person: [joining[other] for other in whom] for person, whom in zip(joining, follows, strict=True)}


def grow_by_number(people: int, authors: int, graph: FollowGraph, random: Random) -> list[list[int]]:
    """Return the follows of 0, 1 ... `people` - 1, who join in this order.

    Only the first `authors` of them are followed. Takes time in proportion to the follows, 3 s for a million.
    """
    follows: list[list[int]] = []
    places: list[dict[int, int]] = []  # of each person: followed person -> index in their list
    popularity: list[int] = []  # each author, and again for each follower
    draw, pick = random.random, random.choice
    for person in range(people):
        is_author = person < authors
        before = person if is_author else authors
        count = min(graph.follows, before)
        chosen: dict[int, int] = {}
        if count == before:
            chosen = {other: other for other in range(before)}
        last = -1
        while len(chosen) < count:
            other = -1
            if chosen and draw() < graph.closure:
                other = _friend(follows[last], places[last], chosen, random)
            if other < 0:
                is_by_popularity = graph.hubs == 1 or draw() < graph.hubs
                other = pick(popularity) if is_by_popularity else random.randrange(before)
            if other not in chosen:
                chosen[other] = len(chosen)
                last = other
        follows.append([*chosen])
        places.append(chosen)
        is_founder = person <= graph.follows
        for other in chosen:
            popularity.append(other)
            if is_author and (is_founder or draw() < graph.mutual):
                places[other][person] = len(follows[other])
                follows[other].append(person)
                popularity.append(person)
        if is_author:
            popularity.append(person)
    return follows


def _friend(whom: list[int], places: dict[int, int], chosen: Collection[int], random: Random) -> int:
    """Draw one of a person's follows that is not chosen yet; -1 if there is none."""
    taken: list[int] = []
    for other in chosen:
        if other in places:
            insort(taken, places[other])
    if len(taken) == len(whom):
        return -1
    place = random.choice(range(len(whom) - len(taken)))
    for each in taken:
        place += each <= place
    return whom[place]
