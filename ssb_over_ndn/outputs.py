"""Packets from an application to its forwarder."""


class Outputs:
    """A queue of packets, `outputs`, to be sent."""

    def __init__(self) -> None:
        self.outputs: list[bytes] = []

    def take_outputs(self) -> list[bytes]:
        """Remove and return the packets for the forwarder."""
        outputs, self.outputs = self.outputs, []
        return outputs
