"""Coverage: the share of a reader's wanted people that a few peers replicate."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from testbed.ladder.follows import Follows
from testbed.ladder.networks import Numbers

CHOICES: Final[Mapping[str, str]] = {
    "random people": "random people",
    "random friends": "random friends",
    "best friends": "friends that add most",
}
"""A reader's choice of peers: uniform among all, or among those followed; or, of those followed, greedily the
one that adds most.
"""
WANTED: Final[Mapping[str, str]] = {"friends": "friends", "beyond": "friends of friends"}
"""A reader's wanted people: those followed, and those followed by them but not by the reader."""
MOST: Final = 20
"""Maximum number of peers chosen."""
_CANDIDATES: Final = 200
"""Candidates of the greedy choice among friends; of more, a random subset."""
_HOPS: Final = 2

Key = tuple[str, str, str]


def covered(follows: Follows, readers: int, random: np.random.Generator) -> Iterator[tuple[Key, float]]:
    """Yield (choice, peers, wanted), and the share of those wanted that the peers replicate.

    Readers are drawn uniformly from those who follow somebody. Peers replicate themselves, those that they
    follow, and those that these follow.
    """
    reading = np.flatnonzero(follows.counts)
    for reader in random.choice(reading, readers) if len(reading) else ():
        yield from _of_reader(follows, int(reader), random)


def _of_reader(follows: Follows, reader: int, random: np.random.Generator) -> Iterator[tuple[Key, float]]:
    friends = follows.within(reader, 1)
    wanted = follows.within(reader, 2)
    is_friend = np.isin(wanted, friends)
    others = random.permutation(follows.people - 1)[:MOST]
    few = random.permutation(friends)
    choices = {
        "random people": replicated(follows, others + (others >= reader), wanted),
        "random friends": replicated(follows, few[:MOST], wanted),
    }
    choices["best friends"] = in_best_order(replicated(follows, few[:_CANDIDATES], wanted), MOST)
    for choice, has in choices.items():
        together = np.logical_or.accumulate(has, axis=0)
        for peers in range(1, MOST + 1):
            have = together[min(peers, len(together)) - 1]
            yield (choice, f"{peers}", "friends"), float(have[is_friend].mean())
            if not is_friend.all():
                yield (choice, f"{peers}", "beyond"), float(have[~is_friend].mean())


def replicated(follows: Follows, peers: Numbers, wanted: Numbers) -> NDArray[np.bool_]:
    """Return, for each peer, a mask of the wanted people within two follows of it, itself included."""
    found = np.zeros((len(peers), len(wanted)), bool)
    for place, peer in enumerate(peers):
        found[place] = np.isin(wanted, np.append(follows.within(int(peer), _HOPS), peer))
    return found


def in_best_order(has: NDArray[np.bool_], most: int) -> NDArray[np.bool_]:
    """Return up to `most` rows: at each step the one that adds most to those before, the first of equals."""
    missing = np.ones(has.shape[1], bool)
    chosen: list[int] = []
    for _ in range(min(most, len(has))):
        gains = (has & missing).sum(axis=1)
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        missing &= ~has[chosen[-1]]
    return has[chosen]
