"""A key log: secrets by which encrypted streams of a capture can be read.

A line a secret: a label, an identifier and the secret itself, both hexadecimal, as in the key logs of TLS
(draft-ietf-tls-keylogfile), from which only the labels differ. What a label means, its protocol says.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

_LINE = re.compile(r"([A-Z][A-Z0-9_]*) ([0-9a-f]*) ([0-9a-f]+)")


class Secret(NamedTuple):
    """A secret: its label, capitals and underscores; what it is for; and itself."""

    label: str
    identifier: bytes
    secret: bytes


Secrets: TypeAlias = frozenset[Secret]


def to_lines(secrets: Iterable[Secret]) -> bytes:
    """Return the lines of some secrets, in order and each once. Raises ValueError for what is no label."""
    lines = sorted({f"{each.label} {each.identifier.hex()} {each.secret.hex()}" for each in secrets})
    for line in lines:
        if _LINE.fullmatch(line) is None:
            raise ValueError(f"no label and secret of a key log: {line.partition(' ')[0]!r}")
    return "".join(f"{line}\n" for line in lines).encode()


def from_lines(lines: bytes) -> Secrets:
    """Return the secrets of a key log. Lines that are none, comments among them, are passed over."""
    found = (_LINE.fullmatch(line.strip()) for line in lines.decode("ascii", "replace").splitlines())
    return frozenset(
        Secret(line[1], bytes.fromhex(line[2]), bytes.fromhex(line[3]))
        for line in found
        if line is not None and not len(line[2]) % 2 and not len(line[3]) % 2
    )
