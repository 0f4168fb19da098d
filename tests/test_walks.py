"""The walks of docs/architecture.md: what they name is called, in that order."""

import asyncio
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from patience import PATIENCE_S
from pyspark.sql.datasource import InputPartition

from analysis.pipelines.run import analyze
from analysis.spark.batch_reader import CaptureReader
from forwarder.faces.driver import Driver
from forwarder.faces.udp import UdpTransport
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest
from testbed.bench.load import DOWN, UP, new_host
from testbed.experiment.platform import Platform
from testbed.experiment.run import run
from testbed.scenario import reader, workload

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WALKS = dict(re.findall(r"<!-- walk: (\w+) -->\n.*?\n\n(.*?)\n\n", PAGE, re.DOTALL))
SCENARIO = """
title = "a walk"
layerings = ["lli"]
publishers = ["pub"]
[topology]
generator = "line"
length = 2
[topology.link]
delay_ms = 2.0
loss_percent = 1.0
[workload]
items = 2
"""

READ = CaptureReader.read

Call = tuple[str, str]
"""A module's path and the name of a function in it."""


def steps(walk: str) -> list[Call]:
    return re.findall(r"`([\w/]+\.py)` `([\w.]+)`", WALKS[walk])


def calls_of(work: Callable[[], object]) -> list[Call]:
    """Return what is called in this repository, in order."""
    calls: list[Call] = []

    def see(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{ROOT}/"):
            path = frame.f_code.co_filename.removeprefix(f"{ROOT}/")
            calls.append((path, frame.f_code.co_qualname))

    def seen(reader: CaptureReader, partition: InputPartition) -> Iterator[Any]:
        sys.setprofile(see)  # Sail reads in threads that Python has not started
        try:
            yield from READ(reader, partition)
        finally:
            sys.setprofile(None)

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(CaptureReader, "read", seen)
            work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return calls


def through_two_sockets() -> None:
    """Have an Interest come in over one UDP socket and go out over another."""

    async def walk() -> None:
        host, loop = new_host(), asyncio.get_running_loop()
        host.forwarder.fib.add(from_uri("/walk"), UP)
        driver = Driver(host, loop)
        ends = []
        for face in (DOWN, UP):
            here, there = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
            for sock in (here, there):
                sock.bind(("127.0.0.1", 0))
                sock.setblocking(False)
            here.connect(there.getsockname())
            there.connect(here.getsockname())
            UdpTransport(driver, face, here)
            ends.append(there)
        ends[0].send(make_interest(from_uri("/walk/a"), nonce=1))
        await asyncio.wait_for(loop.sock_recv(ends[1], 9000), PATIENCE_S)
        driver.close()
        for sock in ends:
            sock.close()

    asyncio.run(walk())


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Call]]:
    place = tmp_path_factory.mktemp("walk")
    (place / "walk.toml").write_text(SCENARIO, encoding="utf-8")

    def play() -> None:
        scenario = reader.load(place / "walk.toml")
        run(scenario, workload.load(scenario), Platform("emulated", "asked for"), place / "run")

    played = calls_of(play)
    analysed = calls_of(lambda: analyze(place / "run", engine="sail"))
    packet = calls_of(through_two_sockets)
    return {"packet": packet, "message": played, "frame": analysed, "key": played + analysed}


def test_there_are_four_walks_of_about_ten_lines() -> None:
    assert list(WALKS) == ["packet", "message", "frame", "key"]
    assert all(8 <= len(steps(walk)) <= 10 for walk in WALKS)


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_passes_where_the_page_says(walk: str, walked: dict[str, list[Call]]) -> None:
    calls = iter(walked[walk])
    for step in steps(walk):
        assert step in calls, f"{step} is not called after the step before"
