"""The part of a simulated network besides controlled push: empty unless derived from."""

from collections.abc import Mapping

from forwarder.forwarder import Forwarder
from forwarder.host import Host
from testbed.verify.push.stories.story import Node, Story
from testbed.verify.push.world.frames import Frame
from testbed.verify.push.world.log import Log
from topologies.emulator.virtual_time import VirtualTime


class ExtraTraffic:
    """No applications, and no observers. Classic NDN derives some, see testbed.verify.classic.

    Args:
        story: the story.
        time: the network's.
        log: of events.
        end: time of the last event, ns.

    Attributes:
        is_there: whether anything is included; then links are observed, too.
        catch_up: bound on its catching up, ns.
    """

    is_there = False
    catch_up = 0

    def __init__(self, story: Story, time: VirtualTime, log: Log, end: int) -> None:
        """Take part."""

    def start(self, node: Node, host: Host) -> None:
        """Attach a node's applications to its new host."""

    def route(self, node: str, forwarder: Forwarder, peer: str, face: int) -> None:
        """Add routes to a neighbour."""

    def has(self, frame: Frame) -> bool:
        """Return whether a frame belongs to this part, and not to pushed feeds."""
        return False

    def sent(self, node: str, peer: str, frame: Frame) -> None:
        """Check a packet that a node sends to another."""

    def arrived(self, node: str, peer: str, frame: Frame) -> None:
        """Record a packet that a node has received from another."""

    def settled(self, node: str) -> None:
        """Check a node without pending output."""

    def forget(self, node: str, peer: str | None) -> None:
        """Forget the records between two nodes, or all if `peer` is None."""

    def ask(self, node: str, application: str, prefix: str, what: tuple[str | int, ...]) -> bool:
        """Request something from an application; return whether there is such a prefix."""
        return False

    def unsatisfied(self, connected: Mapping[str, set[str]]) -> list[tuple[str, str]]:
        """Return the applications with missing items or answers, and their progress.

        `connected`: connected nodes, by node.
        """
        return []

    def stop(self) -> None:
        """End the applications' requests."""

    def longest(self, pushed: int) -> int:
        """Return the maximum lifetime of forwarders' state from now on, ns; `pushed`: for pushed feeds."""
        return pushed

    def check_empty(self, name: str, host: Host) -> None:
        """Check that a host has no state left."""

    def check_over(self) -> None:
        """Check that no application waits."""
