"""What takes part in a simulated network beside controlled push: nothing, unless somebody derives from it."""

from collections.abc import Mapping

from forwarder.forwarder import Forwarder
from forwarder.host import Host
from testbed.verify.push.stories.story import Node, Story
from testbed.verify.push.world.frames import Frame
from testbed.verify.push.world.log import Log
from topologies.emulator.virtual_time import VirtualTime


class Beside:
    """No application, and no observer. Classic NDN has some of both, see testbed.verify.classic.

    Args:
        story: what is played.
        time: the network's.
        log: where things are noted.
        end: when nothing more happens, ns.

    Attributes:
        is_there: whether anything takes part; then links are watched, too.
        catch_up: how long that may take to get all, ns.
    """

    is_there = False
    catch_up = 0

    def __init__(self, story: Story, time: VirtualTime, log: Log, end: int) -> None:
        """Take part."""

    def start(self, node: Node, host: Host) -> None:
        """Attach a node's applications to its host, which is new."""

    def route(self, node: str, forwarder: Forwarder, peer: str, face: int) -> None:
        """Route to a neighbour what leads there."""

    def has(self, frame: Frame) -> bool:
        """Tell whether a frame has to do with this, and not with feeds that are pushed."""
        return False

    def sent(self, node: str, peer: str, frame: Frame) -> None:
        """Check a packet that a node sends to another."""

    def arrived(self, node: str, peer: str, frame: Frame) -> None:
        """Note a packet that a node has received from another."""

    def settled(self, node: str) -> None:
        """Check a node that has sent all that it wants to send."""

    def forget(self, node: str, peer: str | None) -> None:
        """Void what there was between two nodes, or all if `peer` is None."""

    def ask(self, node: str, application: str, prefix: str, what: tuple[str | int, ...]) -> bool:
        """Let an application ask for something; return whether there is such a prefix."""
        return False

    def unsatisfied(self, connected: Mapping[str, set[str]]) -> list[tuple[str, str]]:
        """Return the applications that lack what they are owed, with what they have.

        `connected`: the nodes that each node is connected with.
        """
        return []

    def stop(self) -> None:
        """End what applications want."""

    def longest(self, pushed: int) -> int:
        """Return how long forwarders may hold state from now on, ns; `pushed`: for what is pushed."""
        return pushed

    def check_empty(self, name: str, host: Host) -> None:
        """Check that a host has forgotten what is over."""

    def check_over(self) -> None:
        """Check that no application waits for anything."""
