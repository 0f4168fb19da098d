"""One direction of a link as a function from frames sent to frames received: no sockets, no clocks.

The emulator and the relay run this same class, so that a seed gives a frame the same fate in both. A
broadcast medium has a pipe for each pair of members: all pipes of a sender get the same frames, so they
agree on its queue, while each receiver has its own losses and delays. In a radio cell (topologies.radio)
frames enter their pipes after their time on air.

A frame passes, in this order:

1. The queue. It holds `max_queue_size` frames; a frame counts from its arrival until its last bit is sent. A
   frame that finds the queue full is dropped.
2. Serialisation. Frames leave in order, each taking its length (the Ethernet frame as captured:
   no preamble, no checksum) at `bw_mbit`. Without a bandwidth this takes no time, and nothing queues.
3. Loss. A lost frame has had its time on the link; it does not arrive. Losses are independent, or in bursts:
   the link's state changes by the frame between bad and good, with one rate of loss while it is bad,
   another while it is good (E. N. Gilbert, "Capacity of a burst-noise channel", 1960; E. O. Elliott,
   "Estimates of error rates for codes on burst-noise channels", 1963).
4. Delay, with jitter by one of netem's distributions (JITTER), never below 0. Every frame draws its own, so
   with jitter a frame may overtake the one before it. A share of frames has no delay at all, and overtakes
   all.
5. Duplication. The copy takes no time on the link, and draws its own delay.

Parameters that change the bytes of frames (Parameter.changes) do so on arrival at the queue.

A change of parameters applies to later frames: frames in the queue leave unaffected.

Linux's netem differs in five ways. It draws for loss before its queue, so that a lost frame takes no
time on the link. Its queue counts the frames that are still propagating. Given a rate it keeps the
order of frames regardless of jitter; only without a rate do they overtake. A frame that overtakes does not
wait in its queue either. And a copy waits in the queue like any frame.
"""

import hashlib
import math
import random
from collections import deque
from collections.abc import Callable
from statistics import NormalDist

from topologies.link import LinkParameters
from topologies.model import Link, Medium

_FULL_FRAME = 1514
_UNLIMITED_QUEUE = 1_000_000


def pipe_rng(seed: int, carrier: Link | Medium, sender: str, receiver: str = "") -> random.Random:
    """Return the random generator of the direction from `sender` over a link, or to `receiver` on a medium.

    It depends on the seed, the names of the nodes, the medium's name and the direction, so that it is
    unaffected by other links. Raises ValueError for an unknown node.
    """
    nodes = carrier.members if isinstance(carrier, Medium) else (carrier.a, carrier.b)
    if sender not in nodes or (receiver and receiver not in nodes):
        raise ValueError(f"{carrier} does not join {sender} and {receiver or 'anybody'}")
    if isinstance(carrier, Medium):
        key = f"{seed} {carrier.name} {sender} {receiver}"
    else:
        key = f"{seed} {carrier.a} {carrier.b} {sender}"
    return random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest()))


_quantile = NormalDist().inv_cdf
_MOST = 4.0


def _normal(draw: float) -> float:
    """The quantile function of the standard normal distribution, truncated like netem's table."""
    return max(-_MOST, min(_MOST, _quantile(draw))) if draw > 0 else -_MOST


def _pareto(draw: float) -> float:
    """The quantile function of netem's table `pareto`: shape 3, less its mean, in units of 3/4, truncated."""
    return min(_MOST, (math.pow(1 - draw, -1 / 3) - 1.5) * 4 / 3)


def _pareto_normal(draw: float) -> float:
    """The quantile function of netem's table `paretonormal`."""
    return 0.25 * _normal(draw) + 0.75 * _pareto(draw)


JITTER: dict[str, Callable[[float], float]] = {
    "uniform": lambda draw: 2 * draw - 1,
    "normal": _normal,
    "pareto": _pareto,
    "paretonormal": _pareto_normal,
}
"""For each distribution of jitter: from a draw in [0, 1) to the deviation, in units of the jitter."""


Arrival = tuple[int, bytes]
"""Time of a frame's arrival, ns, and its bytes."""


class Pipe:
    """One direction of a link.

    sent: frames handed to the pipe.
    lost: of these, lost on the link.
    queue_drops: of these, dropped by a full queue.
    """

    def __init__(self, link: LinkParameters, rng: random.Random) -> None:
        self._random = rng.random
        self._is_bad = False
        self._departures: deque[int] = deque()
        self.sent = 0
        self.lost = 0
        self.queue_drops = 0
        self.change(link)

    def change(self, link: LinkParameters) -> None:
        """Apply new parameters to later frames."""
        self._ns_per_byte = link.ns_per_byte
        self._queue_size = link.max_queue_size
        self._goes_bad, self._stays_bad, self._loss_good, self._loss_bad = _elliott(link)
        self._duplicate = link.duplicate_percent / 100
        self._reorder = link.reorder_percent / 100
        self._delay = link.delay_ns
        self._jitter = link.jitter_ns
        self._deviation = JITTER[link.jitter_distribution]
        self._changes = [
            (each.changes, getattr(link, name)) for name, each in link.active.items() if each.changes
        ]

    def send(self, now_ns: int, frame: bytes) -> tuple[Arrival, ...]:
        """Send an Ethernet frame; return its arrivals, each with its time (ns) and the received bytes.

        There is one arrival, none if the frame is dropped, two if it is duplicated. An unchanged frame
        arrives as the same object. `now_ns` must not decrease from call to call.
        """
        # Every frame makes the same number of draws: the n-th frame's fate depends on the seed alone.
        self._is_bad = self._random() < (self._stays_bad if self._is_bad else self._goes_bad)
        share = self._loss_bad if self._is_bad else self._loss_good
        is_lost = share >= 1 or (share > 0 and self._random() < share)
        jitter_draws = [self._random()]
        if self._duplicate:
            duplicate_draw, copy_draw = self._random(), self._random()
            if duplicate_draw < self._duplicate:
                jitter_draws.append(copy_draw)
        overtakes = bool(self._reorder) and self._random() < self._reorder
        self.sent += 1
        departure = now_ns
        departures = self._departures
        while departures and departures[0] <= now_ns:
            departures.popleft()
        for change, value in self._changes:
            frame = change(frame, value, len(departures), self._random)
        if self._ns_per_byte or departures:
            if len(departures) >= self._queue_size:
                self.queue_drops += 1
                return ()
            start = departures[-1] if departures else now_ns
            departure = start + round(len(frame) * self._ns_per_byte)
            departures.append(departure)
        if is_lost:
            self.lost += 1
            return ()
        if overtakes:
            return ((departure, frame),) * len(jitter_draws)
        if self._jitter:
            delays = [self._delay + round(self._deviation(draw) * self._jitter) for draw in jitter_draws]
            return tuple((departure + max(0, delay), frame) for delay in delays)
        return ((departure + self._delay, frame),) * len(jitter_draws)


def _elliott(link: LinkParameters) -> tuple[float, float, float, float]:
    """Return the probabilities that the link is bad after a frame for which it was good, and after one for
    which it was bad; and the shares of frames lost while it is good, and bad.

    With independent losses, each frame's state is drawn independently.
    """
    loss = link.loss_percent / 100
    if link.loss_burst is None or not loss:
        return loss, loss, 0.0, 1.0
    good, bad = link.loss_good_percent / 100, link.loss_bad_percent / 100
    is_bad, ends = link.bad_share, 1 / link.loss_burst
    return ends * is_bad / (1 - is_bad), 1 - ends, good, bad


def netem(link: LinkParameters) -> list[str]:
    """Arguments of `tc ... netem` for either direction of a link; none if nothing impairs it.

    netem's limit includes propagating frames. So it is the link's queue size and, on top, the full-sized
    frames in flight by its bandwidth and delay.
    """
    settings: list[str] = []
    if link.delay_ns or link.jitter_ns:
        settings += ["delay", _time(link.delay_ns)]
    if link.jitter_ns:
        settings += [_time(link.jitter_ns)]
        if link.jitter_distribution != "uniform":
            settings += ["distribution", link.jitter_distribution]
    if link.reorder_percent and settings:  # tc refuses it without a delay, where it has no effect
        settings += ["reorder", f"{link.reorder_percent:.6f}%"]
    if link.loss_percent and link.loss_burst is not None:
        begins, goes_on, good, bad = _elliott(link)
        settings += ["loss", "gemodel", f"{100 * begins:.6f}%", f"{100 * (1 - goes_on):.6f}%"]
        if (good, bad) != (0, 1):
            settings += [f"{100 * bad:.6f}%", f"{100 * good:.6f}%"]
    elif link.loss_percent:
        settings += ["loss", "random", f"{link.loss_percent:.6f}%"]
    for name, each in link.active.items():
        settings += each.netem.format(getattr(link, name)).split()
    limit = _UNLIMITED_QUEUE
    if link.bw_mbit is not None:
        settings += ["rate", f"{round(link.bw_mbit * 1e6)}bit"]
        bytes_under_way = link.bw_mbit * 1e6 / 8 * (link.delay_ns + link.jitter_ns) / 1e9
        limit = link.max_queue_size + math.ceil(bytes_under_way / _FULL_FRAME)
    return [*settings, "limit", str(limit)] if settings else []


def _time(time_ns: int) -> str:
    # iproute2 has no unit below the microsecond.
    return f"{time_ns / 1000:.3f}us"
