"""Matching of departures and arrivals on a link."""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence


def match(
    is_out: Sequence[bool], times: Sequence[int], keys: Sequence[object], least_ns: int
) -> Iterator[tuple[int, int | None]]:
    """Yield (index of a departure, time of its arrival or None) for the sightings of one link and direction,
    in order.

    A sighting is a departure or an arrival (`is_out`) at a time (ns, ascending) with a key (`keys`). An
    arrival consumes the latest unmatched departure of its key at least `least_ns` before. Arrivals without a
    departure left are copies made by the link, and are dropped. Equal packets are matched in order.

    If one of two equal packets in flight is lost, sightings do not show which: the earlier one is assumed, as
    most repetitions are retransmissions after a loss.
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
