"""The base of worlds in the emulator: time, steps, cuts, catching up, falling silent."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from typing import Generic

from base.units import SECOND
from testbed.verify.kit.family import S
from testbed.verify.kit.outcome import Outcome, OutcomeOptions, Row, Violation
from testbed.verify.kit.story import Step
from topologies.emulator.network import EmulatedNetwork
from topologies.model import Topology


class World(Generic[S]):
    """An emulated network that plays a story; see kit.outcome.Playable. Families derive from it.

    Args:
        story: the events.
        wanted: requested contents of the outcome.

    Attributes:
        network, topology: the network and its description, made by the derived class.
        outcome: the record so far.
        coverage: number of occurrences by event.
        told: number of messages delivered to applications, by node and author.
        PACE: ns between two checks of the nodes.
        JOINT: separator of texts in the digest.
    """

    PACE = SECOND
    JOINT = ""

    network: EmulatedNetwork
    topology: Topology

    def __init__(self, story: S, wanted: OutcomeOptions) -> None:
        self.story = story
        self.running = "the network"
        self.outcome = Outcome()
        self.coverage = self.outcome.coverage
        self.told: Counter[tuple[str, str]] = Counter()
        self._hasher = sha256()
        self._joint = ""
        self._keeps_rows = wanted.record

    @property
    def now(self) -> int:
        """The time, ns."""
        return self.network.now

    def play(self) -> None:
        """Play the story; raise Violation."""
        raise NotImplementedError

    def do(self, step: Step) -> None:
        """Perform a step."""
        raise NotImplementedError

    def check_nodes(self) -> None:
        """Check the nodes; raise Violation."""

    # Records

    def record(self, text: str) -> None:
        """Add an observation of a node to the digest."""
        self._hasher.update(f"{self._joint}{text}".encode())
        self._joint = self.JOINT

    def note(self, node: str, text: str, other: str | None = None) -> None:
        """Add a chart entry: at a node, or between two."""
        if self._keeps_rows:
            self.outcome.rows.append(Row(self.now, node, other, text))

    def deliver(self, node: str, author: str, sequence: int) -> None:
        """Check that an application receives each message of an author once, in order."""
        self.told[node, author] += 1
        self.note(node, f"gets {author[:6]} {sequence}")
        if sequence != self.told[node, author]:
            said = f"{author[:6]} {sequence} after {self.told[node, author] - 1}"
            raise Violation("told once, in order", node, said)

    def digest(self) -> str:
        """Return the hash of all observations."""
        return self._hasher.hexdigest()

    def violated(self) -> None:
        """See Playable."""

    # Time

    def schedule(self) -> None:
        """Schedule the story's steps, each before all else at its instant."""
        for step in self.story.steps:
            self.network.change(step.at, partial(self.perform, step))

    def run_steps(self, begin: int = 0) -> None:
        """Perform the steps at their times after `begin`, ns, each after all else at its instant."""
        for step in self.story.steps:
            self.run(begin + step.at - self.now)
            self.perform(step)

    def perform(self, step: Step) -> None:
        """Perform a step, and add it to the chart."""
        self.coverage[step.do] += 1
        nodes = [part for part in step.what if part in self.story.columns]
        self.note(nodes[0] if nodes else "", f"{step.do} {' '.join(map(str, step.what))}")
        self.do(step)

    def run(self, time: int) -> None:
        """Let time pass, ns, and check the nodes every PACE."""
        until = self.now + time
        while self.now < until:
            self.network.run(min(until, self.now + self.PACE))
            self.check_nodes()

    def set_link(self, a: str, b: str, *, up: bool, signalled: bool = False) -> None:
        """Cut or heal the link of two nodes; if `signalled`, its ends notice."""
        self.network.set_link(self.topology.link_between(a, b), up, signalled=signalled)

    def catch_up(self, begun: int, missing: Callable[[], Violation | None], within: int) -> None:
        """Continue until nothing is missing; raise Violation `within` ns after `begun`, when all was well."""
        while (violation := missing()) is not None:
            if self.now > begun + within:
                raise violation
            self.run(self.PACE)
        self.outcome.caught_up = self.now - begun

    def fall_silent(self, sent: Callable[[], object], within: int, quiet: int) -> None:
        """Check that nodes fall silent: that `sent` is constant for `quiet` ns, `within` some time, ns."""
        latest = self.now + within
        before = None
        while before != (before := sent()):
            if self.now > latest:
                raise Violation("silence", self.running, "nodes go on sending")
            self.run(quiet)


def reached(start: str, pairs: Iterable[tuple[str, ...]], goes_on: Callable[[str, str], bool]) -> set[str]:
    """Return the nodes connected with `start` by pairs of nodes, itself included.

    `goes_on` decides whether a path continues from one node to another.
    """
    pairs = tuple(pairs)
    found, ahead = {start}, [start]
    while ahead:
        here = ahead.pop()
        for pair in pairs:
            if here in pair:
                other = pair[0] if pair[1] == here else pair[1]
                if other not in found and goes_on(here, other):
                    found.add(other)
                    ahead.append(other)
    return found
