"""Authorisation of commands: the authorisation file, signatures, and protection against replays.

A TOML file has the rules of nfd.conf's `authorizations`, `localhost_security`, `localhop_security` and
`prefix_announcement_validation`:

    [[authorize]]                   # on this machine: /localhost/nfd
    certfile = "keys/alice.ndncert" # or "any"; a path is relative to this file
    privileges = ["faces", "fib", "rib", "cs", "strategy-choice"]

    [[localhop]]                    # one hop away: /localhop/nfd/rib; closed without such a rule
    certfile = "keys/neighbour.ndncert"
    prefixes = ["/site"]            # which it may register; any if this is left out

    [[announcement]]                # whose prefix announcements make routes
    certfile = "any"

Without a file everybody on this machine may do everything, nobody from outside anything but announce to a
strategy that learns from it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from forwarder.management.commands import Signature
from forwarder.management.keys import (
    Certificate,
    is_data_right,
    is_digest_right,
    key_name_of,
    load_certificate,
)
from forwarder.toml_file import first_problem, read_toml
from forwarder.wire.name import from_uri
from forwarder.wire.packet import DIGEST_SHA256, Data

Privilege = Literal["faces", "fib", "rib", "cs", "strategy-choice"]
MODULES: tuple[Privilege, ...] = get_args(Privilege)

GRACE_NS = 120_000_000_000
"""Largest difference between a command's time and ours."""

ANY = "any"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AuthorizeRule(_Strict):
    """The privileges of a signer on this machine."""

    certfile: str
    privileges: tuple[Privilege, ...]


class LocalhopRule(_Strict):
    """Authority of signers one hop away to register routes."""

    certfile: str
    prefixes: tuple[str, ...] | None = None

    @field_validator("prefixes")
    @classmethod
    def _are_names(cls, prefixes: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for prefix in prefixes or ():
            from_uri(prefix)
        return prefixes


class AnnouncementRule(_Strict):
    """A signer whose prefix announcements make routes."""

    certfile: str


class AuthorisationFile(_Strict):
    """The file."""

    authorize: tuple[AuthorizeRule, ...] = (AuthorizeRule(certfile=ANY, privileges=MODULES),)
    localhop: tuple[LocalhopRule, ...] = ()
    announcement: tuple[AnnouncementRule, ...] = Field(default=(AnnouncementRule(certfile=ANY),))


class _Keys:
    """Certificates by key name."""

    def __init__(self) -> None:
        self.is_any = False
        self._by_name: dict[bytes, Certificate] = {}

    def trust(self, certificate: Certificate | None) -> None:
        """Add one; None is anybody."""
        if certificate is None:
            self.is_any = True
        else:
            self._by_name[certificate.key_name] = certificate

    def find(self, key_name: bytes) -> Certificate | None:
        return self._by_name.get(key_name)


class Authorisation:
    """The rules, and the newest command of each key.

    Args:
        rules: of a file; the defaults if None.
        folder: base of relative paths.

    Raises ValueError with a line for the user if a certificate cannot be loaded.
    """

    def __init__(self, rules: AuthorisationFile | None = None, folder: Path = Path()) -> None:
        rules = AuthorisationFile() if rules is None else rules
        loaded: dict[str, Certificate | None] = {ANY: None}

        def certificate(certfile: str) -> Certificate | None:
            if certfile not in loaded:
                try:
                    loaded[certfile] = load_certificate(folder / certfile)
                except (OSError, ValueError) as error:
                    raise ValueError(f"certificate {folder / certfile}: {error}") from error
            return loaded[certfile]

        self._local: dict[str, _Keys] = {module: _Keys() for module in MODULES}
        for rule in rules.authorize:
            for module in rule.privileges:
                self._local[module].trust(certificate(rule.certfile))
        self._localhop: list[tuple[_Keys, Sequence[bytes] | None]] = []
        for remote in rules.localhop:
            keys = _Keys()
            keys.trust(certificate(remote.certfile))
            prefixes = None if remote.prefixes is None else [from_uri(prefix) for prefix in remote.prefixes]
            self._localhop.append((keys, prefixes))
        self._announcers = _Keys()
        for announcer in rules.announcement:
            self._announcers.trust(certificate(announcer.certfile))
        self._last: dict[bytes, tuple[int, int]] = {}  # key name -> newest time (ms), sequence number

    @classmethod
    def load(cls, path: Path) -> "Authorisation":
        """Read the file. Raises ValueError with a line for the user."""
        try:
            rules = AuthorisationFile.model_validate(read_toml(path))
        except ValidationError as error:  # which is a ValueError, too
            raise ValueError(f"{path}: {first_problem(error)}") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        return cls(rules, path.parent)

    def follow(self, other: "Authorisation", now: int) -> None:
        """Replace the rules by another's from `now` (ns) on, and keep the newest command of each key.

        That of a key that is no longer trusted is dropped when its commands would be too old anyway.
        """
        self._local, self._localhop, self._announcers = other._local, other._localhop, other._announcers
        self._last = {
            name: (time, sequence)
            for name, (time, sequence) in self._last.items()
            if self._is_trusted(name) or abs(time * 1_000_000 - now) <= GRACE_NS
        }

    def _is_trusted(self, name: bytes) -> bool:
        return any(keys.find(name) for keys in (*self._local.values(), *(keys for keys, _ in self._localhop)))

    @property
    def is_localhop_enabled(self) -> bool:
        """Whether any rule allows registering routes from one hop away."""
        return bool(self._localhop)

    def check(self, module: str, signature: Signature, now: int) -> str | None:
        """Return why a command of this machine is refused; None if it is not."""
        return self._check([self._local[module]], signature, now)

    def check_localhop(self, prefix: bytes, signature: Signature, now: int) -> str | None:
        """Return why a neighbour's command for a route of a prefix is refused; None if it is not."""
        rules = [
            keys
            for keys, prefixes in self._localhop
            if prefixes is None or any(prefix.startswith(above) for above in prefixes)
        ]
        return self._check(rules, signature, now)

    def is_announced(self, data: Data, now: int) -> bool:
        """Return whether the rules trust a prefix announcement's signer. Raises MalformedPacket."""
        announcers = self._announcers
        return is_data_right(data, None if announcers.is_any else announcers.find, now)

    def _check(self, rules: Iterable[_Keys], signature: Signature, now: int) -> str | None:
        if signature.kind == DIGEST_SHA256 and not is_digest_right(signature.signed, signature.value):
            return "wrong signature"
        rules = list(rules)
        if any(keys.is_any for keys in rules):
            return None
        name = None if signature.key is None else key_name_of(signature.key)
        known = [found for keys in rules if name is not None and (found := keys.find(name)) is not None]
        if name is None or not known:
            return "not authorised"
        certificate = known[0]
        if certificate.kind != signature.kind or not certificate.is_valid(now):
            return "not authorised"
        if not certificate.verify(signature.signed, signature.value):
            return "wrong signature"
        return self._check_replay(name, signature, now)

    def _check_replay(self, name: bytes, signature: Signature, now: int) -> str | None:
        """Record a verified command's time if it is the newest of its key.

        Only trusted keys come here: the file bounds the state.
        """
        time = signature.time
        if time is None:
            return "a command says when it was signed"
        if abs(time * 1_000_000 - now) > GRACE_NS:
            return "signed too long ago, or not yet"
        last_time, last_sequence = self._last.get(name, (-1, -1))
        sequence = signature.sequence
        if time <= last_time or (sequence is not None and sequence <= last_sequence):
            return "replayed or out of order"
        self._last[name] = (time, last_sequence if sequence is None else sequence)
        return None
