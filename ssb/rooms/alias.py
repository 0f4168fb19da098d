"""Aliases: names by which a room knows its members.

A member signs `=room-alias-registration:ROOM:MEMBER:ALIAS`, so a room cannot make up an alias for somebody
else (Rooms 2, "Alias database"). Others get room, member, alias and signature as an SSB URI, whose action is
`consume-alias` ("Web endpoint").
"""

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from ssb.keys import (
    SIGNATURE_SUFFIX,
    Identity,
    InvalidRef,
    decode_base64,
    parse_feed,
    signature_text,
    verify,
)
from ssb.transport.address import InvalidAddress, PeerAddress, parse_address

_LABEL: Final = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", re.IGNORECASE)
_ACTION: Final = "consume-alias"


class InvalidAlias(ValueError):
    """No alias, or one that its owner has not signed; the message has the reason."""


class Alias(NamedTuple):
    """An alias in a room.

    Attributes:
        name: the alias.
        owner: reference of the member.
        signature: of the owner, as text.
    """

    name: str
    owner: str
    signature: str

    def uri(self, room: PeerAddress) -> str:
        """Return the SSB URI to give to others."""
        fields = {
            "action": _ACTION,
            "alias": self.name,
            "userId": self.owner,
            "signature": self.signature,
            "roomId": room.peer,
            "multiserverAddress": str(room),
        }
        return f"ssb:experimental?{urlencode(fields)}"


def sign(identity: Identity, room: str, name: str) -> Alias:
    """Return an alias that an identity has signed for a room; raise InvalidAlias."""
    signature = identity.sign(_registration(room, identity.ref, name))
    return check(Alias(name, identity.ref, signature_text(signature)), room)


def check(alias: Alias, room: str) -> Alias:
    """Return an alias if its owner has signed it for the room; raise InvalidAlias."""
    name, owner, signature = alias
    if _LABEL.fullmatch(name) is None:
        raise InvalidAlias(f"{name!r} is no alias: 1 to 63 letters, digits and hyphens, a letter first")
    try:
        raw = decode_base64(signature.removesuffix(SIGNATURE_SUFFIX))
        is_signed = verify(parse_feed(owner), raw, _registration(room, owner, name))
    except InvalidRef as error:
        raise InvalidAlias(f"the alias {name}: {error}") from None
    if not is_signed:
        raise InvalidAlias(f"the alias {name} is not signed by {owner} for this room")
    return alias


def is_alias_uri(text: str) -> bool:
    """Whether a text is meant to be the SSB URI of an alias."""
    return _ACTION in text and text.strip().lower().startswith("ssb:")


def parse_uri(text: str) -> tuple[PeerAddress, Alias]:
    """Return the address of the room, and the alias; raise InvalidAlias."""
    fields = {name: values[0] for name, values in parse_qs(urlsplit(text.strip()).query).items()}
    try:
        alias = Alias(fields["alias"], fields["userId"], fields["signature"])
        room = parse_address(fields["multiserverAddress"])
        is_same = room.peer == fields["roomId"]
    except KeyError as error:
        raise InvalidAlias(f"the URI of an alias has no {error.args[0]}") from None
    except InvalidAddress as error:
        raise InvalidAlias(str(error)) from None
    if not is_same:
        raise InvalidAlias("the URI of an alias names two rooms")
    return room, check(alias, room.peer)


def _registration(room: str, owner: str, name: str) -> bytes:
    return f"=room-alias-registration:{room}:{owner}:{name}".encode()
