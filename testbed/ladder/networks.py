"""Random networks of peers, as arrays.

The tables of the paper come from three kinds of networks, though its text reads as if there was one. scipy is
imported on use, as it is slow to import.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.integer]


class Network(NamedTuple):
    """An undirected network.

    Two peers may be linked more than once: if both call, or if one draws the other again.

    Attributes:
        starts, neighbours: the neighbours of peer p are neighbours[starts[p] : starts[p + 1]].
    """

    starts: Numbers
    neighbours: Numbers

    @property
    def peers(self) -> int:
        """The number of peers."""
        return len(self.starts) - 1

    @property
    def links(self) -> int:
        """The number of links."""
        return len(self.neighbours) // 2


def linked(opened: Numbers, called: Numbers) -> Network:
    """Return the network in which peer p calls the next opened[p] of `called`, as undirected links."""
    from scipy.sparse import csr_matrix

    peers = len(opened)
    ends = np.zeros(peers + 1, np.int64)
    np.cumsum(opened, out=ends[1:])
    ours = csr_matrix((np.ones(len(called), np.int8), called, ends), (peers, peers))
    theirs = ours.tocsc()
    starts = ends + theirs.indptr
    neighbours = np.empty(2 * len(called), np.int64)
    neighbours[np.arange(len(called)) + np.repeat(theirs.indptr[:-1], opened)] = called
    neighbours[np.arange(len(called)) + np.repeat(ends[1:], np.diff(theirs.indptr))] = theirs.indices
    return Network(starts, neighbours)


def random_network(peers: int, connections: float, random: np.random.Generator) -> Network:
    """Return a network in which each peer opens connections to peers drawn uniformly.

    It opens floor(connections), and one more with the probability of the fraction. A self draw costs one
    connection.
    """
    whole = int(connections)
    opened = np.full(peers, whole) + (random.random(peers) < connections - whole)
    callers = np.repeat(np.arange(peers), opened)
    called = random.integers(peers, size=len(callers))
    is_other = callers != called
    return linked(np.bincount(callers[is_other], minlength=peers), called[is_other])


def growing_network(peers: int, connections: int, random: np.random.Generator) -> Network:
    """Return a network in which each joining peer opens connections to existing peers.

    Those are drawn uniformly; duplicate draws are one connection. The first peer is the oldest.
    """
    drawn = np.sort(random.integers(np.arange(1, peers)[:, None], size=(peers - 1, connections)), axis=1)
    is_new = np.ones(drawn.shape, bool)
    is_new[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
    return linked(np.concatenate(([0], is_new.sum(axis=1))), drawn[is_new])


def joined(peers: int, a: Numbers, b: Numbers) -> Network:
    """Return the network of links a[0]-b[0], a[1]-b[1] ..., without duplicates.

    There must be no self-loops.
    """
    ends = distinct(np.minimum(a, b) * peers + np.maximum(a, b))
    return linked(np.bincount(ends // peers, minlength=peers), ends % peers)


def network_of_links(peers: int, links: int, random: np.random.Generator) -> Network:
    """Return a network with `links` distinct links, all equally likely."""
    pairs = random.choice(peers * (peers - 1) // 2, links, replace=False, shuffle=False)
    # Pair b (b - 1) / 2 + a joins a and b, a < b.
    b = np.floor((1 + np.sqrt(1 + 8 * pairs)) / 2).astype(np.int64)
    b -= b * (b - 1) // 2 > pairs
    b += b * (b + 1) // 2 <= pairs
    return joined(peers, pairs - b * (b - 1) // 2, b)


def distinct(numbers: Numbers) -> Numbers:
    """Return the distinct numbers in ascending order.

    np.unique() does the same on a hash table, several times slower.
    """
    ordered = np.sort(numbers)
    is_new = np.ones(len(ordered), bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    found: Numbers = ordered[is_new]
    return found


def rows(starts: Numbers, values: Numbers, chosen: Numbers) -> Numbers:
    """Return the concatenation of values[starts[row] : starts[row + 1]] for all chosen rows."""
    firsts = starts[chosen]
    counts = starts[chosen + 1] - firsts
    skipped = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(firsts - skipped, counts)
    found: Numbers = values[places]
    return found


def depths(network: Network, source: int = 0) -> Numbers:
    """Return the number of links from the source to each peer, -1 for unreachable ones."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order

    links = csr_matrix(
        (np.ones(len(network.neighbours)), network.neighbours, network.starts), (network.peers, network.peers)
    )
    order, before = breadth_first_order(links, source)
    place = np.empty(network.peers, np.int64)
    place[order] = np.arange(len(order))
    found_by = place[before[order[1:]]]
    # Breadth-first order: a level ends before the first peer found from within the level.
    found = np.full(network.peers, -1, np.int64)
    start, end, depth = 0, 1, 0
    while start < end:
        found[order[start:end]] = depth
        start, end, depth = end, 1 + int(np.searchsorted(found_by, end)), depth + 1
    return found
