"""The key log (base.key_log) of a pcapng file.

Its lines are a Decryption Secrets Block (draft-ietf-opsawg-pcapng, section 4.7) right after the interfaces,
as secrets SHOULD precede their packets. The draft registers types of secrets without a range for private use;
SECRETS_TYPE is not registered. Readers skip blocks of unknown type.
"""

import shutil
from pathlib import Path

from base.files import whole_file
from captures.formats.pcapng import INTERFACE_DESCRIPTION, SECTION_HEADER, secrets_block

SECRETS_TYPE = 0x464E4B4C
"""`FNKL` in ASCII, most significant byte first like registered types."""


def add_to_capture(path: Path, lines: bytes) -> None:
    """Insert a key log into a file of pcapng.Writer, after its interfaces. Raises OSError."""
    block = secrets_block(SECRETS_TYPE, lines)
    with whole_file(path) as new, path.open("rb") as old, new.open("wb") as file:
        while len(head := old.read(8)) == 8 and int.from_bytes(head[:4], "little") in (
            SECTION_HEADER,
            INTERFACE_DESCRIPTION,
        ):
            file.write(head + old.read(int.from_bytes(head[4:], "little") - 8))
        file.write(block + head)
        shutil.copyfileobj(old, file, 1 << 20)
