"""The key log (base.key_log) of a pcapng file.

Its lines are a Decryption Secrets Block (draft-ietf-opsawg-pcapng, section 4.7) right after the interfaces,
as secrets SHOULD come before the packets that they are for. The draft registers types of secrets, and has no
range for private use; SECRETS_TYPE is not registered. A reader that does not know a type passes over the
block.
"""

import shutil
from pathlib import Path

from base.files import whole_file
from captures.formats.pcapng import INTERFACE_DESCRIPTION, SECTION_HEADER, secrets_block

SECRETS_TYPE = 0x464E4B4C
"""`FNKL` in ASCII, most significant byte first, as registered types have it."""


def add_to_capture(path: Path, lines: bytes) -> None:
    """Put a key log into a file of pcapng.Writer, after its interfaces. Raises OSError."""
    block = secrets_block(SECRETS_TYPE, lines)
    with whole_file(path) as new, path.open("rb") as old, new.open("wb") as file:
        while len(head := old.read(8)) == 8 and int.from_bytes(head[:4], "little") in (
            SECTION_HEADER,
            INTERFACE_DESCRIPTION,
        ):
            file.write(head + old.read(int.from_bytes(head[4:], "little") - 8))
        file.write(block + head)
        shutil.copyfileobj(old, file, 1 << 20)
