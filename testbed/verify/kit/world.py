"""The base of worlds in the emulator: time, steps, cuts, catching up, falling silent."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from typing import Generic

from base.units import SECOND
from testbed.verify.kit.family import S
from testbed.verify.kit.outcome import Outcome, Row, Violation, Wanted
from testbed.verify.kit.story import Step
from topologies.emulator.network import EmulatedNetwork
from topologies.model import Topology


class World(Generic[S]):
    """An emulated network that plays a story; see kit.outcome.Playable. A family derives its own.

    Args:
        story: what happens.
        wanted: what the outcome is to hold.

    Attributes:
        network, topology: the network, which the derived class makes, and what it is like.
        outcome: what has been noted.
        coverage: how often what has happened.
        told: how many messages of an author an application was told of, by node and author.
        PACE: ns from one look at the nodes to the next.
        JOINT: what is between two things that are said, in the digest.
    """

    PACE = SECOND
    JOINT = ""

    network: EmulatedNetwork
    topology: Topology

    def __init__(self, story: S, wanted: Wanted) -> None:
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
        """Let a step happen."""
        raise NotImplementedError

    def look(self) -> None:
        """Check the nodes; raise Violation."""

    # What is noted

    def say(self, text: str) -> None:
        """Let the digest depend on something that a node has seen."""
        self._hasher.update(f"{self._joint}{text}".encode())
        self._joint = self.JOINT

    def note(self, node: str, text: str, other: str | None = None) -> None:
        """Note something for the chart: at a node, or between two."""
        if self._keeps_rows:
            self.outcome.rows.append(Row(self.now, node, other, text))

    def tell(self, node: str, author: str, sequence: int) -> None:
        """Check that an application is told of each message of an author once, in order."""
        self.told[node, author] += 1
        self.note(node, f"gets {author[:6]} {sequence}")
        if sequence != self.told[node, author]:
            said = f"{author[:6]} {sequence} after {self.told[node, author] - 1}"
            raise Violation("told once, in order", node, said)

    def digest(self) -> str:
        """Return the hash of all that was said."""
        return self._hasher.hexdigest()

    def violated(self) -> None:
        """See Playable."""

    # Time

    def schedule(self) -> None:
        """Let the story's steps happen when it is their time, before all else of that instant."""
        for step in self.story.steps:
            self.network.change(step.at, partial(self.happen, step))

    def walk(self, begin: int = 0) -> None:
        """Go from step to step, each so long after `begin`, ns, and let it happen after all else."""
        for step in self.story.steps:
            self.run(begin + step.at - self.now)
            self.happen(step)

    def happen(self, step: Step) -> None:
        """Let a step happen, and note it."""
        self.coverage[step.do] += 1
        nodes = [part for part in step.what if part in self.story.columns]
        self.note(nodes[0] if nodes else "", f"{step.do} {' '.join(map(str, step.what))}")
        self.do(step)

    def run(self, time: int) -> None:
        """Let time pass, ns, and look at the nodes every PACE."""
        until = self.now + time
        while self.now < until:
            self.network.run(min(until, self.now + self.PACE))
            self.look()

    def set_link(self, a: str, b: str, *, up: bool, signalled: bool = False) -> None:
        """Cut the link of two nodes, or heal it; its ends are told if that is `signalled`."""
        self.network.set_link(self.topology.link_between(a, b), up, signalled=signalled)

    def catch_up(self, begun: int, missing: Callable[[], Violation | None], within: int) -> None:
        """Go on until nothing is missing; raise what is, `within` ns after all was well, at `begun`."""
        while (violation := missing()) is not None:
            if self.now > begun + within:
                raise violation
            self.run(self.PACE)
        self.outcome.caught_up = self.now - begun

    def fall_silent(self, sent: Callable[[], object], within: int, quiet: int) -> None:
        """Check that nodes fall silent: that `sent` stays the same for `quiet` ns, `within` some time, ns."""
        latest = self.now + within
        before = None
        while before != (before := sent()):
            if self.now > latest:
                raise Violation("silence", self.running, "nodes go on sending")
            self.run(quiet)


def reached(start: str, pairs: Iterable[tuple[str, ...]], goes_on: Callable[[str, str], bool]) -> set[str]:
    """Return the nodes that are joined with one by pairs of nodes, and that node.

    `goes_on` tells whether a way leads from one node on to another.
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
