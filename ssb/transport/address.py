"""Addresses of peers as text: multiserver addresses and invite codes.

An address is `net:HOST:PORT~shs:KEY`, the key being base64; several are separated by `;`, and the first
supported one is used. An invite code is `HOST:PORT:@KEY.ed25519~SEED`. (npm's multiserver-address,
ssb-invite.)
"""

from typing import NamedTuple

from ssb.keys import InvalidRef, decode_base64, encode_base64, feed_ref, parse_feed


class InvalidAddress(ValueError):
    """Not an address or invite code; the message has the reason."""


class PeerAddress(NamedTuple):
    """A peer and the TCP address where it listens."""

    host: str
    port: int
    peer: str

    def __str__(self) -> str:
        return f"net:{self.host}:{self.port}~shs:{encode_base64(parse_feed(self.peer))}"


class Invite(NamedTuple):
    """The inviting peer, and the seed of the identity for the guest's call."""

    address: PeerAddress
    seed: bytes

    def __str__(self) -> str:
        host, port, peer = self.address
        return f"{host}:{port}:{peer}~{encode_base64(self.seed)}"


def parse_address(text: str) -> PeerAddress:
    """Return the first address of a list with TCP and the secret handshake. Raises InvalidAddress."""
    for address in text.strip().split(";"):
        place, _, proof = address.partition("~")
        if place.startswith("net:") and proof.startswith("shs:"):
            try:
                key = decode_base64(proof.removeprefix("shs:").partition(":")[0])
                peer = feed_ref(key) if len(key) == 32 else ""
            except InvalidRef:
                peer = ""
            if not peer:
                raise InvalidAddress(f"{address}: the key is none")
            host, port = _place(place.removeprefix("net:"), address)
            return PeerAddress(host, port, peer)
    raise InvalidAddress(f"{text.strip()!r} is no address of the form net:HOST:PORT~shs:KEY")


def parse_invite(text: str) -> Invite:
    """Parse an invite. Raises InvalidAddress."""
    before, _, seed_text = text.strip().rpartition("~")
    place, _, peer = before.rpartition(":")
    try:
        parse_feed(peer)
        seed = decode_base64(seed_text)
    except InvalidRef:
        raise InvalidAddress("an invite has the form HOST:PORT:@KEY.ed25519~SEED") from None
    if len(seed) != 32:
        raise InvalidAddress(f"the seed of an invite has 32 bytes, not {len(seed)}")
    host, port = _place(place, text.strip())
    return Invite(PeerAddress(host, port, peer), seed)


def _place(text: str, whole: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InvalidAddress(f"{whole}: no host and port")
    return host.strip("[]"), int(port)
