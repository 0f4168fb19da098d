"""Modules of the management protocol: their commands and datasets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from forwarder.management.parameters import ControlParameters, ControlResponse
from forwarder.wire.name import prefix_ends

MOST_COMPONENTS = 32
"""Components that a prefix may have in a command, as in NFD."""


class Refusal(Exception):
    """A command or a query cannot be done.

    Attributes:
        response: the answer.
    """

    def __init__(self, code: int, text: str, body: ControlParameters | None = None) -> None:
        super().__init__(text)
        self.response = ControlResponse(code, text, body)


def check_prefix(name: bytes) -> None:
    """Raise Refusal if a prefix is too long."""
    if len(prefix_ends(name)) > MOST_COMPONENTS:
        raise Refusal(414, f"a prefix has {MOST_COMPONENTS} components at most")


@dataclass(frozen=True)
class Call:
    """A command that may be done.

    Attributes:
        parameters: checked against its Command.
        face: the face that it came from; None if that is not known.
        now: when, ns.
        reply: takes the answer if it comes later.
        payload: ApplicationParameters; empty if there are none.
    """

    parameters: ControlParameters
    face: int | None
    now: int
    reply: Callable[[ControlResponse], None]
    payload: bytes = b""

    def own_face(self) -> int:
        """Return the face that is meant: that of the command if FaceId is 0 or absent. Raises Refusal."""
        face = self.parameters.face or self.face
        if face is None:
            raise Refusal(404, "no FaceId, and it is not known which face the command came from")
        return face

    def prefix(self) -> bytes:
        """Return the name. Raises Refusal if it is too long."""
        name = self.parameters.name or b""
        check_prefix(name)
        return name


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        run: executes it; returns the answer, or None if Call.reply will send it. May raise Refusal.
        required, optional: names of the ControlParameters fields that it must and may have; others are
            errors.
        takes_payload: its parameters are in ApplicationParameters, not in the name.
    """

    run: Callable[[Call], ControlResponse | None]
    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    takes_payload: bool = False

    def check(self, parameters: ControlParameters) -> None:
        """Raise Refusal if a field is missing, or there that must not."""
        present = parameters.present()
        if missing := self.required - present:
            raise Refusal(400, f"missing: {', '.join(sorted(missing))}")
        if extra := present - self.required - self.optional:
            raise Refusal(400, f"not for this command: {', '.join(sorted(extra))}")
        if "mask" in self.optional and ("flags" in present) != ("mask" in present):
            raise Refusal(400, "flags and mask go together")


Dataset = Callable[[Sequence[tuple[int, bytes]], int], bytes]
"""Returns a dataset, from (the name's components after its own name, now). May raise Refusal."""


class Module:
    """One module of the management protocol.

    Attributes:
        name: its component in names.
        commands, datasets: by verb.
    """

    name: str
    commands: Mapping[str, Command]
    datasets: Mapping[str, Dataset]


def done(**fields: object) -> ControlResponse:
    """Return the answer of a command that has been done; its body has these fields of ControlParameters."""
    return ControlResponse(200, "OK", ControlParameters(**fields))  # type: ignore[arg-type]
