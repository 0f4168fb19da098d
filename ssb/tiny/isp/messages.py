"""tinyISP's commands: content of entries, BIPF lists `["ISP", command, ...]`.

These are not in the paper; receivers ignore unknown commands:

- `sub_pause` and `sub_resume`: flow control by a provider with a full backlog for a slow client;
- `sub_receipt`: a client's signed receipt for entries of another's feed;
- `reach` and `sub_relay`, between providers: reachable clients, and requests for them;
- the arguments `proof` and `group` of subscriptions, at the end: a client's signature for its feed
  (`ssb.tiny.isp.evidence`), and the members of a group (`ssb.tiny.isp.subscription`).
"""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Final

from ssb.bipf import MalformedBipf, Value, decode, encode
from ssb.tiny.entry import KEY, PACKET, POINTER
from ssb.tiny.replica import Limit

SIGNATURE: Final = 64
"""Bytes of a signature."""
NOT_FOUND: Final = "not_found"
"""Reason of a refusal: the provider has no such client."""
REJECTED: Final = "rejected"
"""Reason of a refusal: the client declines, or has ended."""
COMMANDS: Final = Limit(entries=(1 << 32) - 1, content=1500)
"""Limit of root and control feeds: endless, and as long as the longest command."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """In a root feed: its author is a provider."""


@dataclass(frozen=True, slots=True)
class OnboardRequest:
    """In the client's root feed: request for a contract, whose id is this entry's."""

    isp: bytes
    control: bytes


@dataclass(frozen=True, slots=True)
class OnboardResponse:
    """In the provider's root feed: the answer; `control` is None for a refusal."""

    ref: bytes
    ok: bool
    control: bytes | None


@dataclass(frozen=True, slots=True)
class OnboardAck:
    """In either control feed, first: the contract is open, and this is the first data feed."""

    data: bytes


@dataclass(frozen=True, slots=True)
class HopPrev:
    """In a data feed, first: the preceding data feed; None in the first one."""

    feed: bytes | None


@dataclass(frozen=True, slots=True)
class HopNext:
    """In a data feed, last: the data feed that follows; None if none does."""

    feed: bytes | None


@dataclass(frozen=True, slots=True)
class HopFin:
    """In a control feed: this data feed of the other side was read to its end."""

    feed: bytes


@dataclass(frozen=True, slots=True)
class SubRequest:
    """In a client's control feed: request to exchange feeds with another; `feed` is the client's own."""

    target: bytes
    feed: bytes
    proof: bytes | None = None
    group: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class SubRequestIsp:
    """In the provider's control feed: the same for the other client; `ref` is the request's id."""

    ref: bytes
    source: bytes
    feed: bytes
    proof: bytes | None = None
    group: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class SubRelay:
    """In a provider's control feed for another: a request of a client, for a client reachable there."""

    ref: bytes
    source: bytes
    target: bytes
    feed: bytes
    proof: bytes | None = None
    group: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class SubResponse:
    """In a client's control feed, its answer. In a data feed, not `ok`: it has sent its last entry there."""

    ref: bytes
    ok: bool
    feed: bytes | None
    proof: bytes | None = None


@dataclass(frozen=True, slots=True)
class SubResponseIsp:
    """In the provider's control feed, the answer: a feed or a reason. In a data feed, not `ok`: the other
    client has sent its last entry. Providers answer to each other with it, in both directions."""

    ref: bytes
    ok: bool
    feed: bytes | str
    proof: bytes | None = None


@dataclass(frozen=True, slots=True)
class SubPause:
    """In the provider's control feed: send no more of this client-to-client feed for now."""

    feed: bytes


@dataclass(frozen=True, slots=True)
class SubResume:
    """In the provider's control feed: continue this client-to-client feed."""

    feed: bytes


@dataclass(frozen=True, slots=True)
class SubReceipt:
    """In control feeds, from client to client: `sequence` entries of the other's feed were read."""

    ref: bytes
    sequence: int
    signature: bytes


@dataclass(frozen=True, slots=True)
class Reach:
    """In a provider's control feed for another: its path to clients.

    `path` begins with the sender and ends with the clients' provider; None withdraws it.
    """

    path: tuple[bytes, ...] | None
    targets: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class FarewellInit:
    """In a control feed: request to end the contract."""


@dataclass(frozen=True, slots=True)
class FarewellAck:
    """In a control feed: agreement to end it."""


@dataclass(frozen=True, slots=True)
class FarewellFin:
    """In a control feed: all data of the other side were read."""


Message = (
    Announcement
    | OnboardRequest
    | OnboardResponse
    | OnboardAck
    | HopPrev
    | HopNext
    | HopFin
    | SubRequest
    | SubRequestIsp
    | SubResponse
    | SubResponseIsp
    | SubPause
    | SubResume
    | SubRelay
    | SubReceipt
    | Reach
    | FarewellInit
    | FarewellAck
    | FarewellFin
)

_Check = Callable[[Value], bool]


def _key(value: Value) -> bool:
    return isinstance(value, bytes) and len(value) == KEY


def _key_or_none(value: Value) -> bool:
    return value is None or _key(value)


def _ref(value: Value) -> bool:
    return isinstance(value, bytes) and len(value) == POINTER


def _bool(value: Value) -> bool:
    return isinstance(value, bool)


def _proof_or_none(value: Value) -> bool:
    return value is None or (isinstance(value, bytes) and len(value) == SIGNATURE)


def _signature(value: Value) -> bool:
    return value is not None and _proof_or_none(value)


def _keys(value: Value) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(map(_key, value))


def _keys_or_none(value: Value) -> bool:
    return value is None or _keys(value)


def _number(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _key_or_reason(value: Value) -> bool:
    return isinstance(value, str) or _key(value)


_FORMATS: dict[str, tuple[type[Message], tuple[_Check, ...]]] = {
    "announcement": (Announcement, ()),
    "onboard_request": (OnboardRequest, (_key, _key)),
    "onboard_response": (OnboardResponse, (_ref, _bool, _key_or_none)),
    "onboard_ack": (OnboardAck, (_key,)),
    "feedhopping_prev": (HopPrev, (_key_or_none,)),
    "feedhopping_next": (HopNext, (_key_or_none,)),
    "feedhopping_fin": (HopFin, (_key,)),
    "sub_req": (SubRequest, (_key, _key, _proof_or_none, _keys_or_none)),
    "sub_req_isp": (SubRequestIsp, (_ref, _key, _key, _proof_or_none, _keys_or_none)),
    "sub_resp": (SubResponse, (_ref, _bool, _key_or_none, _proof_or_none)),
    "sub_resp_isp": (SubResponseIsp, (_ref, _bool, _key_or_reason, _proof_or_none)),
    "sub_relay": (SubRelay, (_ref, _key, _key, _key, _proof_or_none, _keys_or_none)),
    "sub_receipt": (SubReceipt, (_ref, _number, _signature)),
    "reach": (Reach, (_keys_or_none, _keys)),
    "sub_pause": (SubPause, (_key,)),
    "sub_resume": (SubResume, (_key,)),
    "farewell_init": (FarewellInit, ()),
    "farewell_ack": (FarewellAck, ()),
    "farewell_fin": (FarewellFin, ()),
}
_OPTIONAL = {
    kind: sum(field.default is not MISSING for field in fields(kind)) for kind, _ in _FORMATS.values()
}
"""Number of trailing null arguments that a command omits."""
_COMMANDS = {kind: command for command, (kind, _) in _FORMATS.items()}


def write(message: Message) -> bytes:
    """Return a command as content of an entry."""
    arguments = [getattr(message, name) for name in message.__match_args__]
    optional = _OPTIONAL[type(message)]
    while optional and arguments[-1] is None:
        del arguments[-1]
        optional -= 1
    return encode(["ISP", _COMMANDS[type(message)], *arguments])


def read(content: bytes) -> Message | None:
    """Parse the command in content; None if there is none, or a malformed one.

    An acceptance must name a feed. The Android client omits nulls at the end.
    """
    try:
        value = decode(content)
    except MalformedBipf:
        return None
    if not isinstance(value, list) or len(value) < 2 or value[0] != "ISP" or not isinstance(value[1], str):
        return None
    kind, checks = _FORMATS.get(value[1], (None, ()))
    if kind is None:
        return None
    arguments: list[Value] = list(value[2:])
    arguments += [None] * (len(checks) - len(arguments))
    if len(arguments) != len(checks):
        return None
    if not all(check(argument) for check, argument in zip(checks, arguments, strict=True)):
        return None
    make: Callable[..., Message] = kind
    message = make(*(tuple(one) if isinstance(one, list) else one for one in arguments))
    if isinstance(message, OnboardResponse) and message.ok != (message.control is not None):
        return None
    if isinstance(message, SubResponse) and message.ok != (message.feed is not None):
        return None
    if isinstance(message, SubResponseIsp) and message.ok != isinstance(message.feed, bytes):
        return None
    return message


def is_tunnelled(content: bytes) -> bool:
    """Whether content of a data feed is an entry with its side chain: whole packets, unlike commands."""
    return len(content) > 0 and len(content) % PACKET == 0
