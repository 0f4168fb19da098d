"""Public keys and certificates (NDN packet format 0.3, "Signature"; NDN certificate format 2.0)."""

import base64
import binascii
import calendar
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from forwarder.management.commands import parse_signature_info
from forwarder.wire.name import GENERIC, component, components, to_uri
from forwarder.wire.packet import (
    DIGEST_SHA256,
    ED25519,
    KEY_CONTENT,
    SHA256_WITH_ECDSA,
    SHA256_WITH_RSA,
    Data,
    parse_data,
)
from forwarder.wire.tlv import MalformedPacket, element, elements, read_header

_KEY = (GENERIC, b"KEY")
_SIGNATURE_INFO = 22
_VALIDITY_PERIOD = 253
_NOT_BEFORE = 254
_NOT_AFTER = 255

Verify = Callable[[bytes, bytes], bool]
"""(signed portion, signature) -> whether the signature is valid."""


def is_digest_right(signed: bytes, signature: bytes) -> bool:
    """Check a DigestSha256 signature, which proves integrity and nothing more."""
    return hmac.compare_digest(hashlib.sha256(signed).digest(), signature)


def load_key(info: bytes) -> tuple[int, Verify]:
    """Return the SignatureType of a public key (SubjectPublicKeyInfo, DER) and its verifier.

    Raises ValueError if it is not an RSA, ECDSA or Ed25519 key.
    """
    from Cryptodome.Hash import SHA256  # slow to import, and needed by few nodes
    from Cryptodome.PublicKey import RSA
    from Cryptodome.Signature import pkcs1_15

    try:
        return _load_curve(info)
    except (ValueError, IndexError, TypeError):
        pass
    try:
        rsa = pkcs1_15.new(RSA.import_key(info))
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError("not a public key: RSA, ECDSA and Ed25519 are known") from error

    def verify(signed: bytes, signature: bytes) -> bool:
        try:
            rsa.verify(SHA256.new(signed), signature)
        except ValueError:
            return False
        return True

    return SHA256_WITH_RSA, verify


def _load_curve(info: bytes) -> tuple[int, Verify]:
    from Cryptodome.Hash import SHA256
    from Cryptodome.PublicKey import ECC
    from Cryptodome.Signature import DSS

    key = ECC.import_key(info)
    if key.curve == "Ed25519":
        ed25519 = VerifyKey(key.export_key(format="raw"))

        def verify_ed25519(signed: bytes, signature: bytes) -> bool:
            try:
                ed25519.verify(signed, signature)
            except (BadSignatureError, ValueError):
                return False
            return True

        return ED25519, verify_ed25519
    ecdsa = DSS.new(key, "fips-186-3", encoding="der")

    def verify(signed: bytes, signature: bytes) -> bool:
        try:
            ecdsa.verify(SHA256.new(signed), signature)
        except (ValueError, IndexError):
            return False
        return True

    return SHA256_WITH_ECDSA, verify


@dataclass(frozen=True)
class Certificate:
    """A trusted key.

    Attributes:
        key_name: /<identity>/KEY/<id>.
        not_before, not_after: validity period, ns since 1970; 0 and None without bounds.
        kind: its SignatureType.
        verify: its verifier.
    """

    key_name: bytes
    not_before: int
    not_after: int | None
    kind: int
    verify: Verify

    def is_valid(self, now: int) -> bool:
        """Return whether it is valid at `now`."""
        return self.not_before <= now and (self.not_after is None or now <= self.not_after)


def key_name_of(locator: bytes) -> bytes:
    """Return the key's name from that of the key or of a certificate, .../KEY/<id>[/<issuer>[/<version>]]."""
    parts = components(locator)
    places = [at for at, part in enumerate(parts) if part == _KEY]
    return b"".join(component(*part) for part in parts[: places[-1] + 2]) if places else locator


def parse_certificate(wire: bytes) -> Certificate:
    """Read a certificate. Its own signature is not verified: whoever installed it trusts it.

    Raises ValueError (MalformedPacket is one) with a line for the user.
    """
    data = parse_data(wire)
    parts = components(data.name)
    if data.content_type != KEY_CONTENT or len(parts) < 4 or parts[-4] != _KEY:
        raise ValueError(f"{to_uri(data.name)} is not a certificate: .../KEY/<id>/<issuer>/<version>")
    kind, verify = load_key(data.content)
    begin, end = validity_of(signature_info(data))
    return Certificate(key_name_of(data.name), begin, end, kind, verify)


def load_certificate(path: Path) -> Certificate:
    """Read a certificate file: see read_certificate()."""
    return parse_certificate(read_certificate(path))


def read_certificate(path: Path) -> bytes:
    """Return the packet in a certificate file: base64 as `ndnsec cert-dump` writes it, or the packet itself.

    Raises ValueError or OSError with a line for the user.
    """
    raw = path.read_bytes()
    if raw[:1] != b"\x06":
        try:
            raw = base64.b64decode(b"".join(raw.split()), validate=True)
        except binascii.Error as error:
            raise ValueError("neither a certificate nor base64 of one") from error
    return raw


def signature_info(data: Data) -> bytes:
    """Return the TLV-VALUE of a packet's SignatureInfo; raise MalformedPacket if it has none."""
    signed = data.signed
    for kind, start, end in elements(signed, 0, len(signed)):
        if kind == _SIGNATURE_INFO:
            return signed[start:end]
    raise MalformedPacket("no SignatureInfo")


def validity_of(fields: bytes) -> tuple[int, int | None]:
    """Return the bounds in the ValidityPeriod among some elements, ns since 1970; (0, None) without one.

    Raises MalformedPacket.
    """
    for kind, start, end in elements(fields, 0, len(fields)):
        if kind == _VALIDITY_PERIOD:
            first, at, stop = read_header(fields, start, end)
            last, at_last, stop_last = read_header(fields, stop, end)
            if (first, last, stop_last) != (_NOT_BEFORE, _NOT_AFTER, end):
                raise MalformedPacket("a ValidityPeriod has NotBefore and NotAfter")
            # A bound includes the second that it names.
            return _time(fields[at:stop]), _time(fields[at_last:stop_last]) + 999_999_999
    return 0, None


def validity_period(begin: int, end: int) -> bytes:
    """Return a ValidityPeriod from one time to another, ns since 1970, each cut to its second.

    Raises ValueError if one is before 1970 or after the year 9999.
    """
    bounds = element(_NOT_BEFORE, _written(begin)) + element(_NOT_AFTER, _written(end))
    return element(_VALIDITY_PERIOD, bounds)


def _written(time: int) -> bytes:
    """Write ns since 1970 as YYYYMMDDThhmmss, UTC."""
    days, second = divmod(time // 1_000_000_000, 86_400)
    if not 0 <= days < _DAYS_TO_10000:
        raise ValueError(f"a validity period has years from 1970 to 9999; {time} ns since 1970 is in none")
    # Years that begin in March have their leap day at the end, and months of 153 days in fives.
    era, day = divmod(days + 719_468, 146_097)  # days since 0000-03-01, in eras of 400 years
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year, month = 400 * era + year + month // 10, month + 3 - month // 10 * 12
    hour, rest = divmod(second, 3600)
    return b"%04d%02d%02dT%02d%02d%02d" % (year, month, day + 1, hour, rest // 60, rest % 60)


_DAYS_TO_10000 = 2_932_897
"""From 1970-01-01 to 10000-01-01."""


def _time(text: bytes) -> int:
    """Read YYYYMMDDThhmmss, UTC, as ns since 1970; earlier times are 0."""
    digits = text[:8] + text[9:]
    if len(text) != 15 or text[8:9] != b"T" or not digits.isdigit():
        raise MalformedPacket("a time is YYYYMMDDThhmmss")
    year, *rest = int(digits[:4]), *(int(digits[at : at + 2]) for at in range(4, 14, 2))
    month, day, hour, minute, second = rest
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61) or not year:
        raise MalformedPacket("a time that no clock shows")
    return max(calendar.timegm((year, month, day, hour, minute, second)), 0) * 1_000_000_000


def is_data_right(data: Data, find: Callable[[bytes], Certificate | None] | None, now: int) -> bool:
    """Return whether a Data packet is signed by a key that `find` (by key name) returns.

    Without `find` every signer is trusted; then only a digest can be wrong.
    """
    kind, locator = parse_signature_info(signature_info(data))
    if find is None:
        return kind != DIGEST_SHA256 or is_digest_right(data.signed, data.signature)
    certificate = None if locator is None else find(key_name_of(locator))
    return (
        certificate is not None
        and certificate.kind == kind
        and certificate.is_valid(now)
        and certificate.verify(data.signed, data.signature)
    )
