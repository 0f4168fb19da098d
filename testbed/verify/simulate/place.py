"""A node of a simulated network: its host, made anew when it restarts, and what outlives that."""

from forwarder.host import Host
from testbed.verify.simulate.actors import Device, Reader
from topologies.emulator.virtual_time import Alarm


class Place:
    """A node.

    Attributes:
        faces: its faces by neighbour; peers: the neighbours by face.
        starts: how many processes it has had.
        alarm: calls it when its host wants to be woken.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.host: Host
        self.faces: dict[str, int] = {}
        self.peers: dict[int, str] = {}
        self.devices: list[Device] = []
        self.readers: list[Reader] = []
        self.starts = 0
        self.alarm: Alarm
