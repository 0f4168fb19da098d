"""A key log: secrets for decrypting the streams of a capture.

Each line has a label, an identifier and the secret, the latter two hexadecimal, as in the key logs of TLS
(draft-ietf-tls-keylogfile), from which only the labels differ. Their meaning is defined by each protocol.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

_LINE = re.compile(r"([A-Z][A-Z0-9_]*) ([0-9a-f]*) ([0-9a-f]+)")


class Secret(NamedTuple):
    """A secret: its label, capitals and underscores; the identifier of its stream; and its value."""

    label: str
    identifier: bytes
    secret: bytes


Secrets: TypeAlias = frozenset[Secret]


def to_lines(secrets: Iterable[Secret]) -> bytes:
    """Return the lines of some secrets, sorted and deduplicated. Raises ValueError for an invalid label."""
    lines = sorted({f"{each.label} {each.identifier.hex()} {each.secret.hex()}" for each in secrets})
    for line in lines:
        if _LINE.fullmatch(line) is None:
            raise ValueError(f"no label and secret of a key log: {line.partition(' ')[0]!r}")
    return "".join(f"{line}\n" for line in lines).encode()


def from_lines(lines: bytes) -> Secrets:
    """Return the secrets of a key log. Other lines, comments among them, are ignored."""
    found = (_LINE.fullmatch(line.strip()) for line in lines.decode("ascii", "replace").splitlines())
    return frozenset(
        Secret(line[1], bytes.fromhex(line[2]), bytes.fromhex(line[3]))
        for line in found
        if line is not None and not len(line[2]) % 2 and not len(line[3]) % 2
    )
