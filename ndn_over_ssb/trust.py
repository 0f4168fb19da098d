"""NDN's trust model at a forwarding provider: Data pass if their chain of certificates leads to the anchor.

Seed 002, section 4.4: NFPs "implement NDN's trust model by validating content through NDN's certificate
authorities". Schema, chain and signatures are checked by python-ndn's validators (LightVerSec). These are
coroutines that wait for certificates. No event loop runs them here: each runs until it needs a certificate,
and continues once the provider's own forwarder has fetched it.
"""

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from lark import LarkError
from ndn.app import InterestTimeout, ValidationFailure
from ndn.app_support.light_versec import DEFAULT_USER_FNS, Checker, LvsModelError, compile_lvs, lvs_validator
from ndn.app_support.light_versec.compiler import SemanticError
from ndn.encoding import FormalName, parse_data
from ndn.security.validator.cascade_validator import PublicKeyStorage

from base.passive import Outputs
from base.timers import Timers
from forwarder.management.keys import Certificate, parse_certificate
from forwarder.wire.lp import open_data, parse_lp
from forwarder.wire.packet import Data, make_interest, read_name
from forwarder.wire.tlv import MalformedPacket

_KEYS: Final = 1_000  # whose validity is cached
_FETCHES: Final = 100  # certificates fetched at once
_WAITING: Final = 2_000  # Data waiting for certificates
_LIFETIME_MS: Final = 2_000

Verdict = Callable[[bool, int], None]
"""Callback for a result: whether Data may pass, and the time, ns."""


class TrustError(ValueError):
    """Schema or anchor is invalid; the message has the reason."""


class Trust(Outputs):
    """Validates Data; an Application of the forwarder through which it fetches certificates.

    Args:
        schema: in LightVerSec's language.
        anchor: the certificate at the end of all chains, a Data packet.
        random: source of nonces.
        epoch_ms: the time at 0 ns, in ms since 1970, for validity periods.

    Attributes:
        accepted, refused: packets.

    Raises TrustError, also for a schema whose keys sign each other in a circle; so chains are bounded.
    """

    def __init__(self, schema: str, anchor: bytes, random: Random, epoch_ms: float) -> None:
        super().__init__()
        self._anchor = anchor
        self._random = random
        self._epoch_ms = epoch_ms
        self._now = 0
        self._fetches: dict[bytes, list[_Check]] = {}  # certificate -> checks waiting for it
        self._timers: Timers[bytes] = Timers()  # time-outs of certificates
        self._waiting = 0
        self.accepted = 0
        self.refused = 0
        try:
            self._anchor_name = read_name(anchor)
            checker = Checker(compile_lvs(schema), DEFAULT_USER_FNS)
            self._validate = lvs_validator(checker, self, anchor, _Keys())
        except (LarkError, LvsModelError, SemanticError, MalformedPacket, ValueError, IndexError) as error:
            first = str(error).partition("\n")[0]
            raise TrustError(f"schema or anchor: {first}") from None

    def check(self, data: Data, verdict: Verdict, now: int) -> None:
        """Validate Data, and report: at once, or when certificates have arrived or timed out."""
        self._now = now
        if data.name == self._anchor_name:
            self._decide(data.wire == self._anchor, verdict)
        elif self._waiting >= _WAITING:
            self._decide(False, verdict)
        else:
            self._advance(_Check(self._validated(data.wire), verdict), None)

    # The application

    def receive(self, packet: bytes, now: int) -> None:
        """See Application: a certificate, or a Nack."""
        self._now = now
        try:
            header = parse_lp(packet)
            name = read_name(header.fragment) if header.fragment else b""
        except MalformedPacket:
            return
        found = open_data(packet)
        self._end(name, None if found is None else found[0].wire)

    def next_deadline(self) -> int | None:
        return self._timers.next_deadline()

    def wake(self, now: int) -> None:
        """See Application: time out certificates."""
        self._now = now
        for name in self._timers.expire(now):
            self._end(name, None)

    # The coroutines

    async def _validated(self, wire: bytes) -> bool:
        name, _, _, signature = parse_data(wire)
        return bool(await self._validate(name, signature))

    async def express_interest(
        self, *, name: FormalName, validator: Callable[..., Coroutine[Any, Any, bool]], **how: Any
    ) -> tuple[FormalName, None, bytes]:
        """Fetch and validate a certificate: the interface of NDNApp that python-ndn's validator uses."""
        wire = await _Certificate(b"".join(map(bytes, name)))
        if wire is None:
            raise InterestTimeout
        certificate = parse_certificate(wire)
        found, meta, content, signature = parse_data(wire)
        if not self._is_valid_now(certificate) or not await validator(found, signature):
            raise ValidationFailure(found, meta, content, signature)
        return found, None, bytes(content or b"")

    def _is_valid_now(self, certificate: Certificate) -> bool:
        now = self._epoch_ms * 1e6 + self._now
        return certificate.not_after is not None and certificate.not_before <= now <= certificate.not_after

    def _advance(self, check: "_Check", certificate: bytes | None) -> None:
        """Run a check until it needs a certificate or ends."""
        try:
            wanted = check.steps.send(certificate)
        except StopIteration as end:
            self._decide(bool(end.value), check.verdict)
            return
        except Exception:
            self._decide(False, check.verdict)
            return
        waiting = self._fetches.get(wanted)
        if waiting is None and len(self._fetches) >= _FETCHES:
            check.steps.close()
            self._decide(False, check.verdict)
            return
        if waiting is None:
            waiting = self._fetches[wanted] = []
            self._timers.set(wanted, self._now + _LIFETIME_MS * 1_000_000)
            interest = make_interest(
                wanted, nonce=self._random.getrandbits(32), must_be_fresh=True, lifetime_ms=_LIFETIME_MS
            )
            self.outputs.append(interest)
        waiting.append(check)
        self._waiting += 1

    def _end(self, name: bytes, certificate: bytes | None) -> None:
        """Continue the checks waiting for a certificate; None if it has timed out."""
        self._timers.set(name, None)
        for check in self._fetches.pop(name, ()):
            self._waiting -= 1
            self._advance(check, certificate)

    def _decide(self, may_pass: bool, verdict: Verdict) -> None:
        if may_pass:
            self.accepted += 1
        else:
            self.refused += 1
        verdict(may_pass, self._now)


class _Certificate:
    """Awaitable of a certificate."""

    def __init__(self, name: bytes) -> None:
        self._name = name

    def __await__(self) -> Generator[bytes, bytes | None, bytes | None]:
        return (yield self._name)


@dataclass(slots=True)
class _Check:
    """A pending validation: its coroutine, and the callback for its result."""

    steps: Coroutine[bytes, bytes | None, bool]
    verdict: Verdict


class _Keys(PublicKeyStorage):  # type: ignore[misc]
    """An LRU cache of keys of valid certificates."""

    def __init__(self) -> None:
        self._keys: OrderedDict[bytes, bytes] = OrderedDict()

    def load(self, name: FormalName) -> bytes | None:
        """Return the key of a valid certificate by name."""
        key = b"".join(map(bytes, name))
        if key in self._keys:
            self._keys.move_to_end(key)
        return self._keys.get(key)

    def save(self, name: FormalName, key_bits: bytes) -> None:
        """Add the key of a valid certificate."""
        self._keys[b"".join(map(bytes, name))] = bytes(key_bits)
        if len(self._keys) > _KEYS:
            self._keys.popitem(last=False)
