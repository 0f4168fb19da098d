"""The recorder: one process that captures many interfaces, in many network namespaces, into one pcapng file.

    python -m captures.network.recorder SPEC.json

SPEC.json: {"output": path, "application": text, "ring_bytes": bytes per interface (optional),
            "clock": [dilation, origin], fields of captures.network.clock.Clock (optional),
            "interfaces": [{"name", "description", "ipv4", "netns": "/proc/PID/ns/net"}, ...]}

It prints the line `ready` once it captures on every interface. It stops on SIGTERM, SIGINT or the end of its
standard input; all earlier frames are in the file. It ends with one line of JSON: {"frames": N, "dropped": N,
"interfaces": {name: {"frames": N, "dropped": N}}}. An error is one line on standard error, with exit status
2.

Theory of operation. The rings are polled by the clock: with hundreds of rings a wake-up per block would use
the processor time of the experiment, and time stamps are the kernel's, so late polling costs no accuracy. A
frame may stay in an open block for two retire periods (see captures.network.ring). So frames are held back
for HOLD_NS and written in the order of time across interfaces.
"""

import argparse
import json
import math
import os
import resource
import select
import signal
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from captures.formats.pcapng import Interface, Writer
from captures.network.clock import Clock
from captures.network.ring import BLOCK_BYTES, MIN_BLOCKS, RETIRE_MS, Frame, Ring, RingError

TICK_MS = 20
FLUSH_MS = 500
"""Interval of flushes for readers of the growing file."""
HOLD_NS = (2 * RETIRE_MS + 2 * TICK_MS) * 1_000_000
DRAIN_S = 5.0  # many times a kernel's delay in retiring its last blocks
SIDE_BY_SIDE = 32

_TOTAL_BYTES = 1 << 28
_MAX_RING_BYTES = 1 << 23
_TIME = itemgetter(1)


class RecorderError(Exception):
    """The reason for the recorder's failure, in one line."""


class Tap(BaseModel):
    """An interface to capture: its name and network namespace; the other fields go into the file."""

    model_config = ConfigDict(extra="forbid")
    name: str
    description: str = ""
    ipv4: str | None = None
    netns: str


class Spec(BaseModel):
    """The interfaces to capture, and the output."""

    model_config = ConfigDict(extra="forbid")
    output: Path
    application: str
    ring_bytes: int | None = Field(default=None, ge=MIN_BLOCKS * BLOCK_BYTES)
    clock: Clock = Clock()
    interfaces: list[Tap] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> "Spec":
        names = [tap.name for tap in self.interfaces]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"named twice: {', '.join(twice)}")
        return self

    def ring_size(self) -> int:
        """Return the bytes of each ring: as configured, or an even share of 256 MiB within 512 KiB and 8
        MiB."""
        return self.ring_bytes or min(_MAX_RING_BYTES, _TOTAL_BYTES // len(self.interfaces))


def load(path: str) -> Spec:
    """Read a spec file; raises RecorderError."""
    try:
        return Spec.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise RecorderError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecorderError(f"{path}: {place + ': ' if place else ''}{first['msg']}") from error


class StopSignal:
    """Stop condition: SIGTERM, SIGINT, or the end of standard input."""

    def __init__(self) -> None:
        signals, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self._poll = select.poll()
        self._poll.register(signals, select.POLLIN)
        self._signals = signals
        if sys.stdin is not None:
            self._poll.register(sys.stdin.fileno(), select.POLLIN)

    def wait(self, milliseconds: int) -> bool:
        """Wait for a time, or until the stop; return whether to stop."""
        ready = [fd for fd, _ in self._poll.poll(milliseconds)]
        return self._signals in ready or any(not os.read(fd, 4096) for fd in ready)


class Recording:
    """Buffer of frames between the rings and the file; the run's clock stamps them."""

    def __init__(self, rings: list[Ring], writer: Writer, clock: Clock) -> None:
        self._rings = rings
        self._writer = writer
        self._clock = clock
        self._held: list[Frame] = []

    def take(self) -> None:
        """Empty all ready blocks."""
        for ring in self._rings:
            self._held += ring.take()

    def write(self, until_ns: float) -> None:
        """Write the held frames up to `until_ns`, in the order of time."""
        self._held.sort(key=_TIME)
        ready = bisect_right(self._held, until_ns, key=_TIME)
        for interface, stamp, frame, direction, length in self._held[:ready]:
            self._writer.write(interface, self._clock.at(stamp), frame, direction, length)
        del self._held[:ready]

    def finish(self) -> None:
        """Stop capturing; write all frames in the rings, and the statistics. Raises RecorderError."""
        for ring in self._rings:
            ring.close_gate()
        end_ns = time.time_ns()
        give_up = time.monotonic() + DRAIN_S
        while True:
            for ring in self._rings:
                ring.count()
            self.take()
            waiting = [ring.name for ring in self._rings if not ring.drained()]
            if not waiting:
                break
            if time.monotonic() > give_up:
                raise RecorderError(f"the kernel keeps frames back: {', '.join(waiting)}")
            time.sleep(TICK_MS / 1000)
        self.write(math.inf)
        for ring in self._rings:
            self._writer.statistics(ring.index, self._clock.at(end_ns), ring.received, ring.dropped)


def record(spec: Spec, stop: StopSignal) -> dict[str, Any]:
    """Capture until `stop`; return the counts to print.

    Raises RecorderError, RingError, ValueError for an invalid address, OSError for the output.
    """
    # A ring has a socket, and its mapping keeps a second descriptor of it.
    _allow_files(2 * len(spec.interfaces) + 64)
    with _rings(spec) as rings, open(spec.output, "wb", buffering=1 << 20) as file:
        interfaces = [Interface(tap.name, tap.description, tap.ipv4) for tap in spec.interfaces]
        writer = Writer(file, interfaces, application=spec.application)
        recording = Recording(rings, writer, spec.clock)
        print("ready", flush=True)
        flush_ns = 0
        while not stop.wait(TICK_MS):
            # Frames taken after this time include all stamped HOLD_NS before it.
            now_ns = time.time_ns()
            recording.take()
            recording.write(now_ns - HOLD_NS)
            if now_ns >= flush_ns:
                file.flush()
                flush_ns = now_ns + FLUSH_MS * 1_000_000
        recording.finish()
    return {
        "frames": sum(ring.taken for ring in rings),
        "dropped": sum(ring.dropped for ring in rings),
        "interfaces": {ring.name: {"frames": ring.taken, "dropped": ring.dropped} for ring in rings},
    }


@contextmanager
def _rings(spec: Spec) -> Iterator[list[Ring]]:
    """Open and close the rings in parallel: for each, the kernel waits for all processors."""
    rings: list[Ring] = []

    def open_ring(index: int) -> None:
        tap = spec.interfaces[index]
        rings.append(Ring(index, tap.name, tap.netns, spec.ring_size()))

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        try:
            list(pool.map(open_ring, range(len(spec.interfaces))))
            yield sorted(rings, key=attrgetter("index"))
        finally:
            list(pool.map(Ring.close, rings))


def _allow_files(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and number > hard:
        raise RecorderError(f"needs {number} open files, and the limit is {hard}: raise it (`ulimit -Hn`)")
    if soft != resource.RLIM_INFINITY and number > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))


def main() -> int:
    """Run the recorder; return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m captures.network.recorder", description="Capture many interfaces."
    )
    parser.add_argument("spec", metavar="SPEC.json")
    stop = StopSignal()
    try:
        spec = load(parser.parse_args().spec)
        counts = record(spec, stop)
    except (RecorderError, RingError, ValueError) as error:
        print(f"captures.network.recorder: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"captures.network.recorder: {spec.output}: {error.strerror}", file=sys.stderr)
        return 2
    print(json.dumps(counts), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
