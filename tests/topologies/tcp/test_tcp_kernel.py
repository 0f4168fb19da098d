"""Our TCP in the emulator against Linux's (congestion control reno) over the same links.

The relay runs the emulator's own pipes, so that links are the same, to the queue; netem's differ
(topologies/pipe.py). Mbit/s, over 10 Mbit/s and 20 ms one way with a queue of 50 packets, on Linux 6.18, as
`pytest -rP -m slow tests/topologies/tcp/test_tcp_kernel.py` prints it; in other runs, of half the size, Linux
got 0.90 to 1.07 with 5 % and without SACK:

    loss    ours    without SACK    as it is installed
    0 %     9.45    (below)         9.55
    1 %     3.17    3.02            3.11
    5 %     1.08    0.99            1.19

Without loss and without SACK, Linux got 6.87 in the first 15 s, ours 9.26. Probably it repairs the burst
that slow start has lost at a segment a round trip (the slow-but-steady variant of RFC 6582, section 3.2),
while ours is the impatient one, that soon ends in a time-out. So without loss it is held against Linux as
it is installed only. That has SACK, RACK and tail-loss probes, which ours has not: with 5 % ours is slower
than that, and not slower once they are turned off.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from patience import PATIENCE_S
from tcp_world import bulk

from topologies.mininet import sandbox
from topologies.model import Link

ROOT = Path(__file__).parents[3]
PROGRAM = str(Path(__file__).with_name("kernel_in_box.py"))
SECONDS = 30
SEED = 1
LOSSES = (0, *[1] * 4, *[5] * 8)
AS_INSTALLED = ()
WITHOUT_SACK = (
    ("net.ipv4.tcp_sack", 0),
    ("net.ipv4.tcp_timestamps", 0),
    ("net.ipv4.tcp_recovery", 0),  # RACK
    ("net.ipv4.tcp_early_retrans", 0),  # tail-loss probes
    ("net.ipv4.tcp_no_metrics_save", 1),
)
PUNCTUAL_US = 500
"""A relay that is later than this on average wants a processor: its links are not those of the emulator."""

why_not = cache(sandbox.why_not)


def fields(number, loss):
    ends = {"a": f"a{number}", "b": f"b{number}"}
    return {**ends, "bw_mbit": 10, "delay_ms": 20, "loss_percent": loss, "max_queue_size": 50}


def mean_by_loss(counts):
    """Throughputs in Mbit/s, by loss."""
    found = {loss: [] for loss in LOSSES}
    for loss, count in zip(LOSSES, counts, strict=True):
        found[loss].append(count * 8 / SECONDS / 1e6)
    return {loss: sum(each) / len(each) for loss, each in found.items()}


@cache
def kernels(directory, sysctls):
    links = [fields(number, loss) for number, loss in enumerate(LOSSES)]
    specification = {"seconds": SECONDS, "seed": SEED, "sysctls": dict(sysctls), "links": links}
    path = directory / "specification.json"
    path.write_text(json.dumps(specification), encoding="utf-8")
    done = subprocess.run(
        sandbox.command([sys.executable, PROGRAM, str(path)]),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    late = found["relay"]["late_mean_us"]
    return (mean_by_loss(found["bytes"]), late)


@cache
def emulated():
    links = (Link(**fields(number, loss)) for number, loss in enumerate(LOSSES))
    return mean_by_loss([bulk(link, SEED, SECONDS)[0] for link in links])


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    if reason := why_not():
        pytest.skip(reason)
    return tmp_path_factory.mktemp("kernel")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sysctls", "loss", "apart"),
    [
        (WITHOUT_SACK, 1, 0.15),
        (WITHOUT_SACK, 5, 0.15),
        (AS_INSTALLED, 0, 0.15),
        (AS_INSTALLED, 1, 0.15),
        (AS_INSTALLED, 5, 0.25),
    ],
)
def test_as_fast_as_the_kernel(directory, sysctls, loss, apart):
    there, late_us = kernels(directory, sysctls)
    if late_us > PUNCTUAL_US:
        pytest.skip(f"the relay was {late_us:.0f} us late on average: this machine is too busy to compare")
    ratio = emulated()[loss] / there[loss]
    print(f"{loss} %: {emulated()[loss]:.2f} / {there[loss]:.2f} = {ratio:.3f}, relay late {late_us:.0f} us")
    assert 1 - apart < ratio < 1 + apart
