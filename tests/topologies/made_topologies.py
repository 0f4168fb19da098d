"""Topologies of any shape, for properties."""

import itertools

from hypothesis import strategies as st

from topologies.model import Link, Topology

GROUP = "224.0.0.71"
"""A multicast group."""

TO_ALL = "255.255.255.255"

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)


@st.composite
def topologies(draw):
    nodes = draw(st.lists(NAMES, min_size=1, max_size=7, unique=True))
    pairs = list(itertools.combinations(nodes, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    links = []
    for pair in chosen:
        a, b = draw(st.permutations(pair))
        links.append(Link(a, b, delay_ms=draw(st.integers(0, 3))))
    return Topology(tuple(nodes), tuple(links))
