"""The key log of a capture: secrets by which encrypted streams in it can be read.

A line a secret: a label, an identifier and the secret itself, both hexadecimal, as in the key logs of TLS
(draft-ietf-tls-keylogfile), from which only the labels differ. What a label means, its protocol says.

In a pcapng file the lines are a Decryption Secrets Block (draft-ietf-opsawg-pcapng, section 4.7) right after
the interfaces, as secrets SHOULD come before the packets that they are for. The draft registers types of
secrets, and has no range for private use; SECRETS_TYPE is not registered. A reader that does not know a type
passes over the block.
"""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from captures.formats.pcapng import INTERFACE_DESCRIPTION, SECTION_HEADER, secrets_block

SECRETS_TYPE = 0x464E4B4C
"""`FNKL` in ASCII, most significant byte first, as registered types have it."""

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


def add_to_capture(path: Path, lines: bytes) -> None:
    """Put a key log into a file of pcapng.Writer, after its interfaces. Raises OSError."""
    block = secrets_block(SECRETS_TYPE, lines)
    new = path.with_name(f".{path.name}.new")
    try:
        with path.open("rb") as old, new.open("wb") as file:
            while len(head := old.read(8)) == 8 and int.from_bytes(head[:4], "little") in (
                SECTION_HEADER,
                INTERFACE_DESCRIPTION,
            ):
                file.write(head + old.read(int.from_bytes(head[4:], "little") - 8))
            file.write(block + head)
            shutil.copyfileobj(old, file, 1 << 20)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
