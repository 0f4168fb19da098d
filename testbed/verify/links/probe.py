"""Sends the frames of the self-test's cases, each over a link of its own, one case after the other.

    python -m testbed.verify.links.probe DIRECTORY FRAMES SEED auto|netem|relay DILATION

runs in a Mininet box and writes DIRECTORY/capture.pcapng and result.json.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, cast

from base.endpoint import NDN_PORT, LinkPort, Program
from base.interface import LinkEnd
from base.passive import PassiveEndpoint
from captures.formats import pcapng
from captures.network.clock import Clock
from captures.network.netns import inside
from testbed.experiment.files import capture_interfaces
from testbed.verify.links.cases import Case, cases
from testbed.verify.links.transits import NUMBER_BYTES, Transit, read_transits
from topologies.emulator.network import EmulatedNetwork
from topologies.mininet import sandbox
from topologies.mininet.child import Child
from topologies.mininet.network import MininetNetwork
from topologies.model import Topology

CAPTURE = "capture.pcapng"
RESULT = "result.json"
_HEADERS = 14 + 20 + 8
_LEAD_NS = 200_000_000


class ProbeError(Exception):
    """The frames could not be sent; the message is one line."""


class Measured(NamedTuple):
    """The transits of each case by its name; and a relay's statistics, else None."""

    transits: dict[str, list[Transit]]
    relay: dict[str, Any] | None = None


class _Plan(NamedTuple):
    """A network with a link for each case, and the beginning of each case, ns."""

    topology: Topology
    cases: Sequence[Case]
    begins: Sequence[int]
    end: int

    @classmethod
    def of(cls, wanted: Sequence[Case]) -> "_Plan":
        nodes, links, begins, now = [], [], [], 0
        for number, case in enumerate(wanted):
            nodes += [f"a{number}", f"b{number}"]
            links.append(case.topology_link(f"a{number}", f"b{number}"))
            begins.append(now)
            now += case.length
        return cls(Topology(tuple(nodes), tuple(links)), wanted, begins, now)

    def ends(self, number: int) -> tuple[LinkEnd, LinkEnd]:
        """Return the sending and receiving interfaces of a case."""
        a, b = self.topology.link_ends[2 * number : 2 * number + 2]
        return a, b

    def read(self, capture: Path) -> dict[str, list[Transit]]:
        ends = {case.name: self.ends(number) for number, case in enumerate(self.cases)}
        senders = {a.name: name for name, (a, _) in ends.items()}
        receivers = {b.name: name for name, (_, b) in ends.items()}
        return read_transits(capture, senders, receivers)


def _payload(number: int, size: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES) + bytes(size - _HEADERS - NUMBER_BYTES)


class _Sender(PassiveEndpoint):
    """An endpoint that sends a case's frames from a time on."""

    def __init__(self, case: Case, begin: int) -> None:
        super().__init__()
        self._due = [(begin + at, size) for at, size in case.sends]
        self._sent = 0

    def next_deadline(self) -> int | None:
        """Return when the next one is due."""
        return self._due[self._sent][0] if self._sent < len(self._due) else None

    def wake(self, now: int) -> None:
        """Send due datagrams."""
        while self._sent < len(self._due) and self._due[self._sent][0] <= now:
            self.outputs.append((0, _payload(self._sent, self._due[self._sent][1]), None))
            self._sent += 1


def emulate(frames: int, seed: int) -> Measured:
    """Measure all cases in the emulator."""
    plan = _Plan.of(cases(frames))
    programs = {}
    for number, case in enumerate(plan.cases):
        a, _ = plan.ends(number)
        programs[a.node] = [Program(_Sender(case, plan.begins[number]), {0: LinkPort(a)})]
    with TemporaryDirectory() as directory:
        path = Path(directory) / CAPTURE
        with path.open("wb") as file:
            capture = pcapng.Writer(file, capture_interfaces(plan.topology), application="feednet")
            network = EmulatedNetwork(plan.topology, programs, seed=seed, capture=capture)
            for number, case in enumerate(plan.cases):
                if case.step is not None:
                    at = plan.begins[number] + case.step.at
                    network.change(at, lambda number=number: _step(network, plan, number))  # type: ignore[misc]
            network.run(plan.end)
            network.write_statistics()
        return Measured(plan.read(path))


def _step(network: EmulatedNetwork, plan: _Plan, number: int) -> None:
    case = plan.cases[number]
    assert case.step is not None
    if case.step.to is None:
        network.set_link(number, False, signalled=False)
    else:
        network.change_link(
            number, case._replace(link=case.step.to).topology_link(f"a{number}", f"b{number}")
        )


def over_mininet(frames: int, seed: int, impairment: str, dilation: int = 1) -> tuple[Measured, str, str]:
    """Measure all cases in Mininet; return the transits, the impairing component, and the reason for its
    choice. Raises ProbeError, OSError.

    For `dilation` see captures.network.clock.
    """
    with TemporaryDirectory() as directory:
        arguments = [directory, str(frames), str(seed), impairment, str(dilation)]
        status = sandbox.box([sys.executable, "-m", "testbed.verify.links.probe", *arguments])
        result = Path(directory) / RESULT
        if status == 130:
            raise KeyboardInterrupt
        if status or not result.exists():
            raise ProbeError(f"the network in Mininet failed (status {status})")
        told = json.loads(result.read_text(encoding="utf-8"))
        plan = _Plan.of(_possible(frames, told["impairment"]))
        transits = plan.read(Path(directory) / CAPTURE)
        return Measured(transits, told["relay"]), told["impairment"], told["reason"]


def _possible(frames: int, impairment: str) -> list[Case]:
    return [case for case in cases(frames) if case.by_netem or impairment == "relay"]


def _send_all(directory: Path, frames: int, seed: int, impairment: str, dilation: int) -> None:
    """Run as the program in the box."""
    if impairment == "auto":
        impairment = "netem" if sandbox.has_netem() else "relay"
    plan = _Plan.of(_possible(frames, impairment))
    kind = cast(Literal["netem", "relay"], impairment)
    clock = Clock.from_now(dilation)
    with MininetNetwork(plan.topology, seed, kind, directory=directory, dilation=dilation) as network:
        taps = [
            {"name": i.name, "description": "", "ipv4": i.ipv4, "netns": network.netns(i.node)}
            for i in plan.topology.link_ends
        ]
        specification = directory / "recorder.json"
        specification.write_text(
            json.dumps(
                {
                    "output": str(directory / CAPTURE),
                    "application": "feednet",
                    "clock": clock,
                    "interfaces": taps,
                }
            ),
            encoding="utf-8",
        )
        recorder = Child(
            "the recorder", [sys.executable, "-m", "captures.network.recorder", str(specification)]
        )
        try:
            recorder.wait()
            with ExitStack() as stack:
                sockets = [_sockets(stack, network, *plan.ends(number)) for number in range(len(plan.cases))]
                _send(plan, network, sockets, clock)
            recorder.finish()
        finally:
            recorder.kill()
    told = {
        "impairment": network.impairment,
        "reason": sandbox.why_no_netem(),
        "relay": network.relay_counters,
    }
    (directory / RESULT).write_text(json.dumps(told), encoding="utf-8")


def _sockets(stack: ExitStack, network: MininetNetwork, a: LinkEnd, b: LinkEnd) -> socket.socket:
    """Return a socket that sends from one interface to the other, with a closed port as destination."""
    for end in (b, a):
        with inside(network.netns(end.node)):
            opened = stack.enter_context(closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
        opened.bind((end.ipv4, NDN_PORT))
    opened.connect((a.peer_ipv4, NDN_PORT))
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    return opened


def _send(plan: _Plan, network: MininetNetwork, sockets: Sequence[socket.socket], clock: Clock) -> None:
    def sleep_until(at: int) -> None:
        time.sleep(clock.machine_s(max(0, at - clock.now())))

    start = clock.now() + _LEAD_NS
    for number, case in enumerate(plan.cases):
        begin = start + plan.begins[number]
        due: list[tuple[int, int]] = [(begin + at, index) for index, (at, _) in enumerate(case.sends)]
        steps = [] if case.step is None else [(begin + case.step.at, -1)]
        for at, index in sorted([*due, *steps]):
            sleep_until(at)
            if index >= 0:
                sockets[number].send(_payload(index, case.sends[index][1]))
            elif case.step is not None and case.step.to is not None:
                changed = case._replace(link=case.step.to)
                network.change_link(number, changed.topology_link(f"a{number}", f"b{number}"))
            else:
                network.set_link(number, up=False)
    sleep_until(start + plan.end)


def main() -> int:
    """Run as the first program in a box; return the exit status."""
    directory, frames, seed, impairment, dilation = sys.argv[1:]
    sandbox.prepare()
    try:
        _send_all(Path(directory), int(frames), int(seed), impairment, int(dilation))
    except (OSError, subprocess.SubprocessError) as error:
        print(f"feednet: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # no clean-up: the box ends with this process
