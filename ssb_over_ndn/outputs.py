"""Packets that an application has for its forwarder."""


class Outputs:
    """A queue of packets; `outputs` has those that are to be sent."""

    def __init__(self) -> None:
        self.outputs: list[bytes] = []

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder, once."""
        outputs, self.outputs = self.outputs, []
        return outputs
