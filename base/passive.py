"""Bases of applications with a queue of packets, of endpoints and applications without deadlines, and of what
is closed in the end.
"""

from typing import Generic, Self, TypeVar

from base.endpoint import Address

P = TypeVar("P")


class Queue(Generic[P]):
    """A queue of packets, `outputs`, to be sent."""

    def __init__(self) -> None:
        self.outputs: list[P] = []

    def take_outputs(self) -> list[P]:
        """Remove and return the packets to be sent."""
        outputs, self.outputs = self.outputs, []
        return outputs


class PassiveEndpoint(Queue[tuple[int, bytes, Address | None]]):
    """An Endpoint that ignores all input, and sends the contents of `outputs`."""

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """See Endpoint."""

    def set_link(self, port: int, up: bool, now: int) -> None:
        """See Endpoint."""

    def next_deadline(self) -> int | None:
        return None

    def wake(self, now: int) -> None:
        """See Endpoint."""


class Outputs(Queue[bytes]):
    """A queue of packets for the forwarder, `outputs`."""


class PassiveApplication(Outputs):
    """An Application that answers nothing, and sends the contents of `outputs`."""

    def receive(self, packet: bytes, now: int) -> None:
        """See Application."""

    def next_deadline(self) -> int | None:
        return None

    def wake(self, now: int) -> None:
        """See Application."""


class Closing:
    """An object that the end of a `with` block closes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what it holds."""
