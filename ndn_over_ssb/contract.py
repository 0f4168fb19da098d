"""Contracts between customers and NDN forwarding providers (seed 002, section 4.4), in logs.

> an NDN forwarder accepts any downstream node as a friend, accepts its interest packets (= pushed replica of
> the requests), and then relies on a similar contract with its upstream node

Both follow each other (messages of type `contact`), and both state the contract in their own logs, in
messages of type `ndn-contract`. The id of the request names the contract.

| do | by | fields | meaning |
|---|---|---|---|
| offer | a provider | terms | its best terms |
| request | a customer | provider, terms | requests a contract |
| accept | the provider | contract, customer, terms | the contract holds on these terms, from now on |
| refuse | the provider | contract, customer, reason | the request is refused |
| begin | either | contract, epoch, feed | this transient feed has the packets from now on |
| end | either | contract | the contract has ended |

Both sides begin epoch 0. After a restart, a side begins the next epoch, and the other side follows: the
content of the earlier transient feeds is lost, as in any restarted router.

A provider may be a customer of another one. A contract can be verified from both logs: nobody can
claim to be the other's customer, or provider. So routes follow from logs (ndn_over_ssb.routes).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from forwarder.wire.name import from_uri, to_uri
from ssb.keys import InvalidRef, parse_feed, parse_message
from ssb.message import Message

CONTRACT: Final = "ndn-contract"
"""The type of messages."""

_MOST_PREFIXES = 64
_REASON = 200  # letters


class InvalidClause(ValueError):
    """The content is no valid clause of a contract; the message has the reason."""


class Terms(NamedTuple):
    """The terms on which a provider serves a customer.

    Attributes:
        rate: Interests a second, and the size of a burst.
        prefixes: prefixes of the names that the customer may request.
        term_s: duration of the contract.
        entries: number of messages in a transient feed.
        unread: most complete transient feeds of a side not read by the other. At this limit it waits,
            so that the contract takes a bounded amount of disk.
        transit: whether the customer is a provider, too, with routes through it.
    """

    rate: int = 1_000
    prefixes: tuple[bytes, ...] = (b"",)
    term_s: int = 24 * 3600
    entries: int = 256
    unread: int = 2
    transit: bool = False

    @classmethod
    def read(cls, value: object) -> "Terms":
        """Read terms of a message; raise InvalidClause."""
        if not isinstance(value, dict):
            raise InvalidClause("terms is no object")
        numbers = {}
        for part, (least, most) in _BOUNDS.items():
            number = value.get(part)
            if type(number) is not int or not least <= number <= most:
                raise InvalidClause(f"terms: {part} is not a number from {least} to {most}")
            numbers[part] = number
        prefixes = value.get("prefixes")
        if not isinstance(prefixes, list) or not 1 <= len(prefixes) <= _MOST_PREFIXES:
            raise InvalidClause(f"terms: prefixes is no list of 1 to {_MOST_PREFIXES}")
        try:
            names = tuple(from_uri(prefix if isinstance(prefix, str) else "%") for prefix in prefixes)
        except ValueError as error:
            raise InvalidClause(f"terms: prefixes: {error}") from None
        return cls(prefixes=names, transit=value.get("transit") is True, **numbers)

    def content(self) -> dict[str, Any]:
        """Encode the terms for a message's content."""
        return {
            "rate": self.rate,
            "prefixes": [to_uri(prefix) for prefix in self.prefixes],
            "term_s": self.term_s,
            "entries": self.entries,
            "unread": self.unread,
            "transit": self.transit,
        }

    def within(self, offer: "Terms") -> "Terms":
        """Return these terms, limited to an offer. Raises InvalidClause if no prefix is left."""
        numbers = {part: min(getattr(self, part), getattr(offer, part)) for part in _BOUNDS}
        prefixes = [
            max(asked, offered, key=len)
            for asked in self.prefixes
            for offered in offer.prefixes
            if asked.startswith(offered) or offered.startswith(asked)
        ]
        if not prefixes:
            raise InvalidClause("none of these prefixes is offered")
        is_transit = self.transit and offer.transit
        return Terms(prefixes=tuple(dict.fromkeys(prefixes)), transit=is_transit, **numbers)

    def allow(self, name: bytes) -> bool:
        """Whether the customer may request a name."""
        return any(name.startswith(prefix) for prefix in self.prefixes)


class Clause(NamedTuple):
    """A message about a contract; absent fields are empty.

    Attributes:
        id, feed, timestamp: of the message; ms since 1970 by its author's clock.
        do: see the module.
        contract: id of the request.
        other: the provider of a request, the customer of an acceptance or refusal.
        transient, epoch: the transient feed with which an epoch begins.
        terms: of an offer, request or acceptance.
        reason: of a refusal.
    """

    id: str
    feed: str
    timestamp: float
    do: str
    contract: str = ""
    other: str = ""
    transient: str = ""
    epoch: int = 0
    terms: Terms | None = None
    reason: str = ""

    @classmethod
    def read(cls, message: Message) -> "Clause | None":
        """Read a message; return None if it is about something else. Raises InvalidClause."""
        content = message.content
        if not isinstance(content, dict) or content.get("type") != CONTRACT:
            return None
        do = content.get("do")
        parts = _PARTS.get(do) if isinstance(do, str) else None
        if parts is None:
            raise InvalidClause(f"do is not one of {', '.join(_PARTS)}")
        values: dict[str, Any] = {}
        for part in parts:
            if part == "terms":
                values["terms"] = Terms.read(content.get("terms"))
            elif part == "epoch":
                epoch = content.get("epoch")
                if type(epoch) is not int or not 0 <= epoch < 1 << 31:
                    raise InvalidClause("epoch is no number from 0 on")
                values["epoch"] = epoch
            elif part == "reason":
                reason = content.get("reason")
                values["reason"] = reason[:_REASON] if isinstance(reason, str) else ""
            else:
                attribute, read = _REFERENCES[part]
                try:
                    read(str(content.get(part)))
                except InvalidRef as error:
                    raise InvalidClause(f"{part}: {error}") from None
                values[attribute] = content[part]
        if do == "request":
            values["contract"] = message.id
        return cls(message.id, message.author, message.timestamp, str(do), **values)


def clause(do: str, **parts: Any) -> dict[str, Any]:
    """Return the content of a message; its parts are references or Terms (see the module)."""
    assert set(parts) == set(_PARTS[do]), f"{do}: {', '.join(parts)}"
    content = {part: value.content() if part == "terms" else value for part, value in parts.items()}
    return {"type": CONTRACT, "do": do} | content


@dataclass(slots=True)
class Contract:
    """A contract according to the logs.

    Attributes:
        id: of the request; "" if only the acceptance is known.
        customer, provider: the two sides; "" if not known.
        terms: the accepted terms; None before the acceptance is known.
        begun: side -> its latest epoch, and its first transient feed in it.
        until: end of its duration, ms since 1970.
        is_requested, is_accepted, has_ended: state according to the logs.
        refusal: the provider's reason; None without a refusal.
    """

    id: str
    customer: str = ""
    provider: str = ""
    asked: Terms | None = None
    terms: Terms | None = None
    until: float = 0.0
    is_requested: bool = False
    is_accepted: bool = False
    has_ended: bool = False
    refusal: str | None = None
    begun: dict[str, tuple[int, str]] = field(default_factory=dict)

    def holds(self, now_ms: float) -> bool:
        """Whether both sides have agreed and neither has ended it."""
        return self.is_requested and self.is_accepted and not self.has_ended and now_ms < self.until

    @property
    def epoch(self) -> int:
        """The latest epoch begun by a side; -1 if there is none."""
        return max((epoch for epoch, _ in self.begun.values()), default=-1)

    def other(self, side: str) -> str:
        """Return the other side."""
        return self.provider if side == self.customer else self.customer


class Contracts:
    """All contracts in the logs.

    Logs are read in any order, each from its start. A clause is effective only if its author may
    state it.
    """

    def __init__(self) -> None:
        self._contracts: dict[str, Contract] = {}
        self._unproven: dict[str, list[Clause]] = {}  # clauses without their request so far
        self.offers: dict[str, Terms] = {}
        """Provider -> its offer."""

    def __iter__(self) -> Iterator[Contract]:
        return iter(self._contracts.values())

    def __getitem__(self, contract: str) -> Contract:
        return self._contracts[contract]

    def read(self, message: Message) -> list[Contract]:
        """Apply the next message of a log; return the changed contracts."""
        try:
            said = Clause.read(message)
        except InvalidClause:
            return []
        if said is None:
            return []
        if said.do == "offer":
            assert said.terms is not None
            self.offers[said.feed] = said.terms
            return []
        if said.do == "request":
            return [self._request(said)]
        if said.contract not in self._contracts:
            self._unproven.setdefault(said.contract, []).append(said)
            return []
        return [self._contracts[said.contract]] if self._apply(said) else []

    def _request(self, said: Clause) -> Contract:
        contract = Contract(said.id, said.feed, said.other, said.terms, is_requested=True)
        self._contracts[said.id] = contract
        for each in self._unproven.pop(said.id, ()):
            self._apply(each)
        return contract

    def _apply(self, said: Clause) -> bool:
        contract = self._contracts[said.contract]
        if said.feed not in (contract.customer, contract.provider) or contract.has_ended:
            return False
        is_provider = said.feed == contract.provider
        if said.do in ("accept", "refuse"):
            if not is_provider or said.other != contract.customer or contract.is_accepted:
                return False
            if said.do == "refuse":
                contract.refusal = said.reason
                return True
            assert said.terms is not None
            contract.terms, contract.is_accepted = said.terms, True
            contract.until = said.timestamp + said.terms.term_s * 1000
        elif said.do == "begin":
            if said.feed in contract.begun and said.epoch <= contract.begun[said.feed][0]:
                return False
            contract.begun[said.feed] = (said.epoch, said.transient)
        elif said.do == "end":
            contract.has_ended = True
        return True


_BOUNDS: Final = {
    "rate": (1, 1_000_000),
    "term_s": (1, 366 * 24 * 3600),
    "entries": (4, 10_000),
    "unread": (1, 100),
}
_REFERENCES: Final = {
    "provider": ("other", parse_feed),
    "customer": ("other", parse_feed),
    "feed": ("transient", parse_feed),
    "contract": ("contract", parse_message),
}
_PARTS: Final = {
    "offer": ("terms",),
    "request": ("provider", "terms"),
    "accept": ("contract", "customer", "terms"),
    "refuse": ("contract", "customer", "reason"),
    "begin": ("contract", "epoch", "feed"),
    "end": ("contract",),
}
