"""Members of a group with links of every quality between them, in virtual time."""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random

from base.units import MS
from forwarder.wire import packet as packets
from ssb_over_ndn.sync.group import GroupMember

Step = tuple[int, Callable[[int], None]]
"""When to do what."""


def deliver(to: GroupMember, wire: bytes, now: int) -> None:
    """Have a member receive a packet."""
    if wire[0] == packets.DATA:
        to.on_data(packets.parse_data(wire), now)
    else:
        to.on_interest(packets.parse_interest(wire), now)


def run(members: Sequence[GroupMember], steps: list[Step], until: int, rng: Random, loss: float) -> None:
    """Run to a time, ns. Each packet goes to each other member within 30 ms, so some overtake others. In the
    first half of the time, one may be lost, and as likely come twice.
    """
    under_way: list[tuple[int, int, int, bytes]] = []
    now = sent = 0
    steps = sorted(steps, key=lambda step: step[0])
    while now <= until:
        for at, one in enumerate(members):
            for wire in one.take_outputs():
                for to in {*range(len(members))} - {at}:
                    chance = rng.random() if now < until // 2 else 0.5
                    for _ in range((chance >= loss) + (chance >= 1 - loss)):
                        sent += 1
                        heappush(under_way, (now + rng.randint(1, 30) * MS, sent, to, wire))
        dues = [due for one in members if (due := one.next_deadline()) is not None]
        last, now = now, min([*dues, *(time for time, *_ in under_way[:1] + steps[:1]), until + 1])
        assert now >= last, "a deadline in the past"
        while under_way and under_way[0][0] <= now:
            _, _, to, wire = heappop(under_way)
            deliver(members[to], wire, now)
        while steps and steps[0][0] <= now:
            steps.pop(0)[1](now)
        for one in members:
            one.wake(now)
