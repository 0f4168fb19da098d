"""The file `secret`: an identity, in the format of stock peers (npm's ssb-keys).

It is a JSON object with the members "curve", "public", "private" and "id", and comments in lines that begin
with `#`. Only its owner may read it. It is written once and never again: a lost identity cannot be restored.
"""

import os
from pathlib import Path
from secrets import token_bytes

from base.files import write_whole
from ssb.canonical import InvalidJson, parse
from ssb.keys import Identity, InvalidRef

_TEXT = """\
# This file is your identity: whoever has it can write messages in your name. Show it to nobody.
# Use it in one program on one machine only. Two programs that write messages with it fork your
# feed, and others will replicate neither branch.
#
{{
  "curve": "ed25519",
  "public": "{public}",
  "private": "{private}",
  "id": "{id}"
}}
#
# This part is public; give it to your friends:
#
#   {id}
"""


class KeyFileError(OSError):
    """Error of reading or writing the file, or no identity in it; the message has path and reason."""


def read(path: str | os.PathLike[str]) -> Identity:
    """Return the identity in a file. Raises KeyFileError."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise KeyFileError(f"{path}: not an identity: not UTF-8") from None
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from None
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    try:
        value = parse("\n".join(lines))
    except InvalidJson as error:
        raise KeyFileError(f"{path}: not an identity: {error}") from None
    if not isinstance(value, dict) or not isinstance(value.get("private"), str):
        raise KeyFileError(f'{path}: not an identity: no member "private"')
    if value.get("curve", "ed25519") != "ed25519":
        raise KeyFileError(f"{path}: an identity on the curve {value['curve']!r}; only ed25519 is known")
    try:
        identity = Identity.from_secret(value["private"])
    except InvalidRef as error:
        raise KeyFileError(f"{path}: not an identity: {error}") from None
    if value.get("id", identity.ref) != identity.ref:
        raise KeyFileError(f'{path}: its "id" does not belong to its "private"')
    return identity


def text_of(identity: Identity) -> str:
    """Return the contents of the file of an identity."""
    return _TEXT.format(public=identity.ref[1:], private=identity.secret(), id=identity.ref)


def create(path: str | os.PathLike[str], identity: Identity | None = None) -> Identity:
    """Write an identity, by default a new one, to a new file; return it.

    Raises KeyFileError.
    """
    path = Path(path)
    identity = identity or Identity.from_seed(token_bytes(32))
    try:
        write_whole(path, text_of(identity), mode=0o600, is_durable=True, is_new=True)
    except FileExistsError:
        raise KeyFileError(f"{path}: there is a file already; it is not overwritten") from None
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from None
    return identity
