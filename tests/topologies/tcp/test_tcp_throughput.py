"""Throughput in virtual time, kept as text: a change of TCP shows as a diff.

    python tests/topologies/tcp/test_tcp_throughput.py

writes the table anew, for a reviewer to read.
"""

import math
from functools import cache
from pathlib import Path

import pytest
from tcp_world import bulk

from topologies.model import Link

SNAPSHOT = Path(__file__).with_name("throughput.txt")
BANDWIDTH = 10e6
DELAY_MS = 20
LOSSES = (0, 0.1, 1, 5)
QUEUES = (8, 32, 100)
SECONDS = {0: 20, 0.1: 20, 1: 30, 5: 60}
SEEDS = {0: (1,), 0.1: (1,), 1: (1, 2), 5: (1, 2)}
MSS = 1460
FULL_FRAME = 1514


@cache
def measured(loss, queue):
    """Throughput in bit/s, and what share of the segments was sent again; means over the seeds."""
    rates, repeated = [], []
    for seed in SEEDS[loss]:
        link = Link(
            "a", "b", bw_mbit=BANDWIDTH / 1e6, delay_ms=DELAY_MS, loss_percent=loss, max_queue_size=queue
        )
        got, world = bulk(link, seed, SECONDS[loss])
        rates.append(got * 8 / SECONDS[loss])
        (connection,) = world.stacks[0]._numbers.values()
        repeated.append(connection.sender.repeated / world.pipes[0].sent)
    return sum(rates) / len(rates), sum(repeated) / len(repeated)


def table():
    lines = [f"{BANDWIDTH / 1e6:g} Mbit/s, {DELAY_MS} ms one way; Mbit/s (sent again)", ""]
    lines.append("loss   " + "".join(f"{f'{queue} packets':>18}" for queue in QUEUES))
    for loss in LOSSES:
        cells = [measured(loss, queue) for queue in QUEUES]
        shown = "".join(f"{f'{rate / 1e6:.2f} ({again:.1%})':>18}" for rate, again in cells)
        lines.append(f"{f'{loss:g} %':7}{shown}")
    return "\n".join(lines) + "\n"


def test_throughput_is_as_it_was():
    assert table() == SNAPSHOT.read_text(encoding="utf-8")


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("loss", [1, 5])
def test_loss_limits_it_as_mathis_says(loss, queue):
    """M. Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997.

    MSS / RTT * C / sqrt(p), with C = sqrt(3/2): the window grows by the bytes acknowledged (RFC 3465), so
    that it does not matter that only every second segment is. Time-outs are not in it: with 5 % it is too
    much.
    """
    round_trip = 2 * DELAY_MS / 1e3 + FULL_FRAME * 8 / BANDWIDTH
    formula = MSS * 8 / round_trip * math.sqrt(1.5) / math.sqrt(loss / 100)
    least = 0.75 if loss == 1 else 0.5
    assert least < measured(loss, queue)[0] / formula < 1.15


@pytest.mark.parametrize("queue", [32, 100])
def test_a_good_link_is_full(queue):
    most = BANDWIDTH * MSS / FULL_FRAME
    assert 0.9 * most < measured(0, queue)[0] <= most


@pytest.mark.parametrize("queue", QUEUES)
def test_more_loss_is_slower(queue):
    rates = [measured(loss, queue)[0] for loss in LOSSES]
    assert rates == sorted(rates, reverse=True)


def test_a_longer_queue_is_faster_without_loss():
    rates = [measured(0, queue)[0] for queue in QUEUES[:2]]
    assert rates == sorted(rates)


if __name__ == "__main__":
    SNAPSHOT.write_text(table(), encoding="utf-8")
