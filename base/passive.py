"""Bases of applications with a queue of packets, of endpoints and applications without deadlines, and of what
is closed in the end.
"""

from typing import Self

from mypy_extensions import mypyc_attr

from base.endpoint import Address


@mypyc_attr(allow_interpreted_subclasses=True)
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


@mypyc_attr(allow_interpreted_subclasses=True)
class Outputs:
    """A queue of packets, `outputs`, to be sent."""

    def __init__(self) -> None:
        self.outputs: list[bytes] = []

    def take_outputs(self) -> list[bytes]:
        """Remove and return the packets for the forwarder."""
        outputs, self.outputs = self.outputs, []
        return outputs


@mypyc_attr(allow_interpreted_subclasses=True)
class PassiveApplication(Outputs):
    """An Application that answers nothing, and sends the contents of `outputs`."""

    def receive(self, packet: bytes, now: int) -> None:
        """See Application."""

    def next_deadline(self) -> int | None:
        """See Application."""
        return None

    def wake(self, now: int) -> None:
        """See Application."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Closing:
    """An object that the end of a `with` block closes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what it holds."""
