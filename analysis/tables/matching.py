"""Which arrival on a link was of which sending."""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence


def match(
    is_out: Sequence[bool], times: Sequence[int], keys: Sequence[object], least_ns: int
) -> Iterator[tuple[int, int | None]]:
    """Yield (place of a sending, time of its arrival or None) for the sightings of one link and direction, in
    order.

    A sighting is a sending or an arrival (`is_out`) at a time (ns, ascending) of something (`keys`). An
    arrival uses up the latest sending of the same thing that it can be of: `least_ns` before, and not used up
    yet. An arrival that no sending is left for is a copy that the link has made, and is left out. Of those of
    one thing that arrived, the first to leave is taken for the first to arrive.

    Where two equal packets are under way at once and one is lost, sightings do not tell which: it is taken
    to be the earlier, as what is sent again mostly is because the one before it was lost.
    """
    under_way: defaultdict[object, list[int]] = defaultdict(list)
    arrivals: defaultdict[object, deque[int]] = defaultdict(deque)
    arrived: set[int] = set()
    for place, (out, time, key) in enumerate(zip(is_out, times, keys, strict=True)):
        sendings = under_way[key]
        if out:
            sendings.append(place)
            continue
        for index in reversed(range(len(sendings))):
            if times[sendings[index]] + least_ns <= time:
                arrived.add(sendings.pop(index))
                arrivals[key].append(time)
                break
    for place, (out, key) in enumerate(zip(is_out, keys, strict=True)):
        if out:
            yield place, arrivals[key].popleft() if place in arrived else None
