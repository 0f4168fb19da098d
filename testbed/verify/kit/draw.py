"""Drawing the networks of stories."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

Link = dict[str, Any]
"""A link of an emulated network: two nodes, `a` and `b`, and parameters of a scenario's links."""


def draw_links(
    rng: Random,
    ends: Iterable[tuple[str, str]],
    *,
    delays: Sequence[float],
    bad: float,
    share: float,
    **faults: Sequence[float],
) -> tuple[Link, ...]:
    """Draw links.

    Args:
        rng: random source.
        ends: the two nodes of each.
        delays: candidates, ms.
        bad: probability of any bad links.
        share: their share, then.
        faults: parameters of bad links, with candidate values.
    """
    is_bad = rng.random() < bad
    links = []
    for a, b in ends:
        link: Link = {"a": a, "b": b, "delay_ms": rng.choice(delays)}
        if is_bad and rng.random() < share:
            link |= {name: rng.choice(values) for name, values in faults.items()}
        links.append(link)
    return tuple(links)
