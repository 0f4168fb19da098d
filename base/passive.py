"""Bases of endpoints and applications without deadlines: they act only when they receive something."""

from base.endpoint import Address


class PassiveEndpoint:
    """An Endpoint that ignores all input, and sends the contents of `outputs`."""

    def __init__(self) -> None:
        self.outputs: list[tuple[int, bytes, Address | None]] = []

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """See Endpoint."""

    def set_link(self, port: int, up: bool, now: int) -> None:
        """See Endpoint."""

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        """See Endpoint."""
        outputs, self.outputs = self.outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        """See Endpoint."""
        return None

    def wake(self, now: int) -> None:
        """See Endpoint."""


class PassiveApplication:
    """An Application that answers nothing, and sends the contents of `outputs`."""

    def __init__(self) -> None:
        self.outputs: list[bytes] = []

    def receive(self, packet: bytes, now: int) -> None:
        """See Application."""

    def take_outputs(self) -> list[bytes]:
        """See Application."""
        outputs, self.outputs = self.outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        """See Application."""
        return None

    def wake(self, now: int) -> None:
        """See Application."""
