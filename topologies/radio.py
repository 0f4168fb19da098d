"""A LoRa radio cell: transmissions and receptions as a function of time.

The emulator and the relay run this same class; it has neither sockets nor a clock. All members of a cell use
one channel with one modulation, and all are in range of each other.

**Airtime** is Semtech's formula (SX1276/77/78/79 data sheet, 4.1.1.7 "Time on air"; application note
AN1200.13, section 4), with explicit header and CRC; the low data rate optimisation is on for symbols longer
than 16 ms, as the data sheet demands.

**Duty cycle** is a sender's time on air, as a share of any hour (ETSI EN 300 220-1 V3.1.1, 5.4: the
observation interval is one hour). A frame that would exceed it waits. A run that is shorter than an hour may
use an hour's airtime.

**Sending.** A member sends its frames in order, each after a random wait, up to `backoff_ms`. Then it
listens, if `carrier_sense` is on: while the channel is busy it waits again. It does not detect transmissions
younger than two symbols, the duration of its channel activity detection (application note AN1200.48), so two
may still begin at almost the same time. Without `carrier_sense` this is pure ALOHA.

**Collisions.** Frames that overlap are lost at all receivers: there is no capture effect, by which a much
stronger one would survive. Members are half duplex: a sender cannot receive meanwhile. In one cell the second
rule follows from the first.

Surviving frames are then lost or delayed at each receiver by the medium's other parameters
(`topologies.pipe`). On air is the payload of UDP datagrams only: the Ethernet, IP and UDP headers of a
capture are those of a host with its modem behind them. All other traffic of a kernel, such as TCP, IGMP or
ARP, does not reach the air, nor do payloads above 255 bytes.
"""

import hashlib
import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, fields
from heapq import heappop, heappush
from random import Random
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

from topologies.parameter import declared, parameter

MOST_PAYLOAD: Final = 255
"""Most bytes of a frame: its header has one byte for the length."""
WINDOW_NS: Final = 3_600_000_000_000
"""The observation interval of the duty cycle: one hour."""

_LONG_SYMBOL_NS = 16_000_000
_UNHEARD_SYMBOLS = 2
_COUNTERS = (
    *("frames", "unfit", "queue_drops", "sent", "airtime_ns"),
    *("collided", "busy", "held_back", "heard"),
)


class RadioError(ValueError):
    """A parameter out of range; the message is one line with its name."""


@dataclass(frozen=True, kw_only=True)
class Radio:
    """Modulation and medium access of a cell."""

    spreading_factor: int = parameter(
        "spreading factor of radio cells",
        "",
        default=7,
        least=7,
        most=12,
        means="A symbol has 2 to this power chips, and carries as many bits.",
    )
    bandwidth_khz: float = parameter(
        "bandwidth of radio cells",
        "kHz",
        default=125.0,
        choices=(7.8, 10.4, 15.6, 20.8, 31.25, 41.7, 62.5, 125.0, 250.0, 500.0),
        means="The width of the channel.",
    )
    coding_rate: int = parameter(
        "bits sent for four of information, in radio cells",
        "bits",
        default=5,
        least=5,
        most=8,
        means="Bits that are sent for every 4 bits of information.",
    )
    preamble: int = parameter(
        "preamble of radio cells",
        "symbols",
        default=8,
        least=6,
        most=65_535,
        means="Symbols before the synchronisation word.",
    )
    duty_cycle_percent: float = parameter(
        "duty cycle of radio cells",
        "%",
        default=1.0,
        most=100,
        is_above=True,
        means="Largest share of any hour that a member may transmit; 100: no limit.",
    )
    carrier_sense: bool = parameter(
        "listening before sending in radio cells",
        "",
        default=True,
        means="Whether a member listens before it sends.",
    )
    backoff_ms: float = parameter(
        "longest random wait before a frame in radio cells",
        "ms",
        default=500.0,
        most=86_400_000,
        means="The longest random wait before a frame.",
    )

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        for each in fields(self):
            value, told = getattr(self, each.name), RADIO_PARAMETERS[each.name]
            kinds = (int, float) if each.type is float else (each.type,)
            if type(value) not in kinds or not told.allows(value):
                whole = f"a whole number {told.range}" if each.type is int else told.wanted
                wanted = "true or false" if each.type is bool else whole
                raise RadioError(f"{each.name} must be {wanted}, not {value}")

    @property
    def symbol_ns(self) -> float:
        """Duration of a symbol."""
        return (1 << self.spreading_factor) * 1e6 / self.bandwidth_khz

    @property
    def backoff_ns(self) -> int:
        """The longest random wait, ns."""
        return round(self.backoff_ms * 1e6)

    def airtime_ns(self, payload: int) -> int:
        """Return the airtime of a frame with `payload` bytes, preamble and header included."""
        is_slow = self.symbol_ns > _LONG_SYMBOL_NS
        bits = 8 * payload - 4 * self.spreading_factor + 28 + 16
        a_block = 4 * (self.spreading_factor - (2 if is_slow else 0))
        symbols = 8 + max(math.ceil(bits / a_block) * self.coding_rate, 0)
        return round((self.preamble + 4.25 + symbols) * self.symbol_ns)

    def describe(self) -> str:
        """Describe it: "LoRa SF7, 125 kHz, 4/5, duty cycle 1 %, carrier sense"."""
        said = [f"LoRa SF{self.spreading_factor}", f"{self.bandwidth_khz:g} kHz", f"4/{self.coding_rate}"]
        if self.duty_cycle_percent < 100:
            said.append(f"duty cycle {self.duty_cycle_percent:g} %")
        return ", ".join([*said, "carrier sense" if self.carrier_sense else "no carrier sense"])


RADIO_PARAMETERS = declared(Radio)
"""The parameters of a radio by name."""


def air_payload(frame: bytes) -> int | None:
    """Return the number of bytes of an Ethernet frame sent on air; None if it is not sent on air."""
    if frame[12:14] != b"\x08\x00" or len(frame) < 42 or frame[23] != 17:
        return None
    start = 14 + 4 * (frame[14] & 15)
    length = int.from_bytes(frame[start + 4 : start + 6]) - 8
    return length if 0 <= length <= MOST_PAYLOAD else None


Frame = TypeVar("Frame")


class Reception(NamedTuple, Generic[Frame]):
    """A frame that survived the air, at the end of its transmission, before a receiver's own losses."""

    time: int
    sender: str
    receiver: str
    frame: Frame


@dataclass
class _Transmission(Generic[Frame]):
    """A frame on air; `heard` are the members present all the time, `is_here` if its sender is, too."""

    sender: str
    start: int
    end: int
    frame: Frame
    heard: list[str]
    is_here: bool
    is_spoiled: bool = False


class _Modem(Generic[Frame]):
    """A member's queue, and its transmissions within the last hour, as (start, end)."""

    def __init__(self) -> None:
        self.queue: deque[tuple[int, Frame]] = deque()
        self.is_busy = False
        self.past: deque[tuple[int, int]] = deque()
        self.counts: Counter[str] = Counter()


class _Medium(Protocol):
    """The part of topologies.model.Medium that a cell uses; that module imports this one."""

    @property
    def name(self) -> str: ...

    @property
    def members(self) -> tuple[str, ...]: ...

    @property
    def max_queue_size(self) -> int: ...

    @property
    def radio(self) -> Radio | None: ...


class Cell(Generic[Frame]):
    """The air of a cell.

    Args:
        radio: modulation and access of all members.
        members: their names.
        queue_size: most frames queued at a member, the one on air included.
        seed: of the random waits.

    Times of calls must not decrease. Times are ns.
    """

    def __init__(self, radio: Radio, members: Sequence[str], queue_size: int, seed: str) -> None:
        self._radio = radio
        self._random = Random(int.from_bytes(hashlib.sha256(seed.encode()).digest()))
        self._queue_size = queue_size
        self._most_ns = round(WINDOW_NS * radio.duty_cycle_percent / 100)
        self._modems: dict[str, _Modem[Frame]] = {name: _Modem() for name in members}
        self._away: set[str] = set()
        self._on_air: list[_Transmission[Frame]] = []
        self._events: list[tuple[int, int, str, _Transmission[Frame] | None]] = []
        self._order = 0

    @classmethod
    def of(cls, medium: "_Medium", seed: int) -> "Cell[Any]":
        """Return the air of a medium with a radio, for the seed of a run."""
        assert medium.radio is not None
        return cls(medium.radio, medium.members, medium.max_queue_size, f"{seed} air {medium.name}")

    def send(self, sender: str, payload: int | None, frame: Frame, now: int) -> None:
        """Send a member's frame with `payload` bytes; None if it is not sent on air."""
        modem = self._modems[sender]
        modem.counts["frames"] += 1
        if payload is None or payload > MOST_PAYLOAD or self._radio.airtime_ns(payload) > self._most_ns:
            modem.counts["unfit"] += 1
        elif len(modem.queue) >= self._queue_size:
            modem.counts["queue_drops"] += 1
        else:
            modem.queue.append((payload, frame))
            if not modem.is_busy:
                modem.is_busy = True
                self._plan(now + self._wait(), sender)

    def set_present(self, member: str, present: bool) -> None:
        """Set whether a member is present; an absent one neither receives nor is received."""
        if present:
            self._away.discard(member)
            return
        self._away.add(member)
        for each in self._on_air:
            if each.sender == member:
                each.is_here = False
                each.heard.clear()
            elif member in each.heard:
                each.heard.remove(member)

    def next_deadline(self) -> int | None:
        """Return when wake() is due."""
        return self._events[0][0] if self._events else None

    def wake(self, now: int) -> list[Reception[Frame]]:
        """Process all events up to a time; return the receptions, in order."""
        found: list[Reception[Frame]] = []
        while self._events and self._events[0][0] <= now:
            time, _, member, transmission = heappop(self._events)
            if transmission is None:
                self._try(member, time)
            else:
                found += self._end(transmission, time)
        return found

    def counters(self) -> dict[str, dict[str, int]]:
        """Return the counters of each member.

        frames: handed over; unfit: no datagrams, or too long; queue_drops: dropped by a full queue; sent: on
        air; airtime_ns: their time on air; collided: of them, lost in collisions; busy: waits for a busy
        channel; held_back: waits for the duty cycle; heard: frames of others received.
        """
        return {
            member: {name: modem.counts[name] for name in _COUNTERS} for member, modem in self._modems.items()
        }

    # Inside

    def _wait(self) -> int:
        return round(self._random.random() * self._radio.backoff_ns)

    def _plan(self, time: int, member: str, transmission: _Transmission[Frame] | None = None) -> None:
        self._order += 1
        heappush(self._events, (time, self._order, member, transmission))

    def _try(self, member: str, now: int) -> None:
        """Send a member's next frame, or delay it."""
        modem = self._modems[member]
        payload, frame = modem.queue[0]
        airtime = self._radio.airtime_ns(payload)
        allowed = self._allowed_from(modem, now, airtime)
        if allowed > now:
            modem.counts["held_back"] += 1
            self._plan(allowed, member)
            return
        is_here = member not in self._away
        others = [each for each in self._on_air if each.is_here and each.end > now] if is_here else []
        unheard = round(_UNHEARD_SYMBOLS * self._radio.symbol_ns)
        if self._radio.carrier_sense and any(each.start + unheard <= now for each in others):
            modem.counts["busy"] += 1
            self._plan(now + max(self._wait(), unheard), member)
            return
        heard = (
            [name for name in self._modems if name != member and name not in self._away] if is_here else []
        )
        sent = _Transmission(member, now, now + airtime, frame, heard, is_here)
        for other in others:
            sent.is_spoiled = other.is_spoiled = True
        self._on_air.append(sent)
        modem.past.append((now, sent.end))
        modem.counts["sent"] += 1
        modem.counts["airtime_ns"] += airtime
        self._plan(sent.end, member, sent)

    def _end(self, sent: _Transmission[Frame], now: int) -> list[Reception[Frame]]:
        self._on_air.remove(sent)
        modem = self._modems[sent.sender]
        modem.queue.popleft()
        if modem.queue:
            self._plan(now + self._wait(), sent.sender)
        else:
            modem.is_busy = False
        if sent.is_spoiled:
            modem.counts["collided"] += 1
            return []
        for receiver in sent.heard:
            self._modems[receiver].counts["heard"] += 1
        return [Reception(now, sent.sender, receiver, sent.frame) for receiver in sent.heard]

    def _allowed_from(self, modem: _Modem[Frame], now: int, airtime: int) -> int:
        """Return the earliest time from now on at which a frame keeps the duty cycle.

        Time on air within an hour is greatest at the end of a frame, so only that hour is checked. Its past
        transmissions, the newest first, may use the share that the frame leaves.
        """
        past = modem.past
        while past and past[0][1] <= now - WINDOW_NS:
            past.popleft()
        left = self._most_ns - airtime
        for start, end in reversed(past):
            if end - start > left:
                return max(now, end - left + WINDOW_NS - airtime)
            left -= end - start
        return now
