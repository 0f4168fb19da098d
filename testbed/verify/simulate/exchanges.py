"""What must hold between Interests and their answers at each node: an observer of classic packets.

It knows the packets that a node has received and sent, on links and from and to its applications, and when.

- `unasked`: Data go to a face from which an Interest has come that they satisfy (name, CanBePrefix, implicit
  digest; for MustBeFresh they have come to the node within their freshness period), which has not expired,
  and which no Data have answered; a persistent one is answered by Data of each name once. They are Data that
  have come to the node, and do not go back to where they have just come from.
- `withheld`: Data that come to a node go to all that wait for them there, but to where they come from, at
  once; those that pass a persistent Interest may have passed it before.
- `loop`: an Interest, known by its name and nonce, is passed on only as it comes from one face; to another
  face no oftener than it has come, and never back. A copy with a nonce of its own (a probe) goes where
  another face waits for the same.
- `hop-limit`: it is one less than it came with, and not 0 on a link.
- `refusal`: a Nack answers an Interest that has come from there, once. Unless that was a duplicate, every
  next hop that has been asked has refused, or the Interest has expired there.
"""

from collections import Counter

from forwarder.dead_nonces import LIFETIME
from forwarder.wire.lp import DUPLICATE
from testbed.verify.simulate.frames import Frame, Key
from testbed.verify.simulate.invariants import MS_NS, Violation


class _Ask:
    """What waits behind a face: until when, by which nonces; `ended` is when it was answered, -1 before.

    `repeated` is how often an application asked for it at the instant `at`: each may be answered, and may
    cross with Data that come to the node just then, so that it waits on.
    """

    __slots__ = (
        "again",
        "at",
        "ended",
        "expiry",
        "is_doubtful",
        "last",
        "newest",
        "nonces",
        "passed",
        "repeated",
    )

    def __init__(self) -> None:
        self.expiry = 0
        self.newest = 0  # when the last of them expires
        self.is_doubtful = (
            False  # the node may hold nothing of it: refused, or answered at the instant it came
        )
        self.last: int | None = None
        self.nonces: set[int | None] = set()
        self.ended = -1
        self.at = -1
        self.repeated = 0
        self.passed: set[bytes] | None = None
        self.again: set[bytes] = set()  # of them, those that may be passed once more


class _Passage:
    """An Interest at a node: where it has come from, where it has gone to, since when it is known."""

    __slots__ = ("came", "hop_limits", "is_known", "last", "last_from", "refused", "sent", "source")

    def __init__(self) -> None:
        self.came: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.hop_limits: dict[str, set[int | None]] = {}
        self.source: str | None = None
        self.is_known = False
        self.last_from = ""
        self.last = 0


class _Node:
    """What a node has received and sent, by face."""

    __slots__ = ("answered", "asked", "held", "passages", "upstream")

    def __init__(self) -> None:
        self.asked: dict[str, dict[Key, _Ask]] = {}
        self.answered: dict[Key, int] = {}  # when Data came for what had been sent on
        self.held: dict[bytes, tuple[int, str]] = {}  # Data packets, when they came last and from where
        self.passages: dict[tuple[bytes, int | None], _Passage] = {}
        # Who is to answer which nonce until when, and whether that is certain.
        self.upstream: dict[Key, dict[str, tuple[int | None, int, bool]]] = {}


class Exchanges:
    """All nodes of a world; `probing` are those whose strategies send copies.

    Attributes:
        now: the time, ns, kept by the world: for what applications send.
    """

    def __init__(self, probing: frozenset[str]) -> None:
        self._probing = probing
        self._nodes: dict[str, _Node] = {}
        self.now = 0
        self._owed: list[tuple[str, _Ask]] = []

    def arrived(self, node: str, peer: str, frame: Frame, now: int) -> None:
        """Note a packet that `node` has received from `peer`."""
        here = self._nodes.setdefault(node, _Node())
        if frame.kind == "interest":
            self._interest_came(here, peer, frame, now)
        elif frame.kind in ("data", "item"):
            here.held[frame.wire] = now, peer
            self._note_owed(here, peer, frame, now)
            for key in [key for key in here.upstream if frame.satisfies(key)]:
                del here.upstream[key]
                here.answered[key] = now
        elif frame.kind == "nack":
            asked = here.upstream.get(frame.key, {})
            if peer in asked and asked[peer][0] == frame.nonce:
                del asked[peer]

    def sent(self, node: str, peer: str, frame: Frame, now: int) -> None:
        """Check a packet that `node` sends to `peer`."""
        here = self._nodes.setdefault(node, _Node())
        if frame.kind == "interest":
            self._check_interest(here, node, peer, frame, now)
        elif frame.kind in ("data", "item"):
            self._check_data(here, node, peer, frame, now)
        elif frame.kind == "nack":
            self._check_nack(here, node, peer, frame, now)

    def forget(self, node: str, peer: str | None = None) -> None:
        """Void what there was between `node` and `peer`: the link is down; or all, if the node is anew."""
        if peer is None:
            self._nodes.pop(node, None)
            return
        here = self._nodes.setdefault(node, _Node())
        for key in here.asked.pop(peer, {}):
            # Perhaps nobody else waits, and the node forgets whom it has asked, too.
            asked = here.upstream.get(key, {})
            asked.update({face: (nonce, until, False) for face, (nonce, until, _) in asked.items()})
        for upstream in here.upstream.values():
            upstream.pop(peer, None)

    def _note_owed(self, here: _Node, origin: str, frame: Frame, now: int) -> None:
        """Note who waits for Data that have come."""
        for face, asked in here.asked.items():
            for key, ask in asked.items():
                if ask.ended >= 0 or ask.newest <= now or ask.is_doubtful or not frame.satisfies(key):
                    continue
                if face == origin:
                    ask.is_doubtful = True  # it has them itself
                elif ask.at != now and ask.passed is None:
                    self._owed.append((face, ask))

    def check_settled(self, node: str, now: int) -> None:
        """Check that Data that have come to a node have gone to all that waited for them."""
        for face, ask in self._owed:
            if ask.ended != now and not ask.is_doubtful:
                raise Violation("withheld", node, f"has Data that {face} waits for, and does not send them")
        self._owed.clear()

    def _interest_came(self, here: _Node, peer: str, frame: Frame, now: int) -> None:
        key = frame.key
        asked = here.asked.setdefault(peer, {})
        ask = asked.get(key)
        if ask is None or ask.ended >= 0 or ask.expiry <= now:
            ask = asked[key] = _Ask()
        if is_application(peer):
            ask.repeated = ask.repeated + 1 if ask.at == now else 1
        ask.at = now
        ask.newest = now + frame.lifetime_ms * MS_NS
        ask.expiry = max(ask.expiry, ask.newest)
        ask.is_doubtful |= frame.hop_limit == 0
        if frame.nonce not in ask.nonces:  # else a copy: it changes nothing, and its refusal is no other's
            ask.last = frame.nonce
        ask.nonces.add(frame.nonce)
        if frame.is_persistent and ask.passed is None:
            ask.passed = set()
        name = frame.name, frame.nonce
        passage = here.passages.get(name)
        if passage is None or passage.last + LIFETIME // 2 <= now:
            is_known = passage is not None
            passage = here.passages[name] = _Passage()
            passage.is_known = is_known  # the node may still remember it, and need not
        passage.came[peer] += 1
        passage.hop_limits.setdefault(peer, set()).add(frame.hop_limit)
        passage.last = now
        passage.last_from = peer

    def _check_interest(self, here: _Node, node: str, peer: str, frame: Frame, now: int) -> None:
        key = frame.key
        passage = here.passages.get((frame.name, frame.nonce))
        if passage is None:
            if node not in self._probing:
                raise Violation("loop", node, f"sends {peer} an Interest that has not come from anywhere")
            if not any(
                _is_open(asked[key], now)
                for face, asked in here.asked.items()
                if key in asked and face != peer
            ):
                raise Violation(
                    "loop", node, f"sends {peer} a copy of an Interest for which nobody else waits"
                )
            here.passages[frame.name, frame.nonce] = passage = _Passage()
            passage.came[node] += 1  # where it was made
            passage.source, passage.last = node, now
            passage.sent[peer] += 1
        else:
            self._check_passage(passage, node, peer, frame)
        # An application may have answered before the frame is seen; or another Interest of the same instant.
        is_certain = here.answered.get(key) != now
        until = now + frame.lifetime_ms * MS_NS
        here.upstream.setdefault(key, {})[peer] = frame.nonce, until, is_certain

    def _check_passage(self, passage: _Passage, node: str, peer: str, frame: Frame) -> None:
        origin = passage.last_from
        if origin == peer:
            raise Violation("loop", node, f"sends an Interest back to {peer}")
        if passage.source is None:
            passage.source = origin
        elif passage.source != origin:
            what = f"passes on an Interest of {passage.source} once more as it comes from {origin}"
            raise Violation("loop", node, what)
        passage.sent[peer] += 1
        if passage.sent[peer] > passage.came[origin]:
            times = f"{passage.sent[peer]} times, which has come {passage.came[origin]} times"
            raise Violation("loop", node, f"passes on an Interest to {peer} {times}")
        before = None if frame.hop_limit is None else frame.hop_limit + 1
        if before not in passage.hop_limits[origin]:
            raise Violation(
                "hop-limit", node, f"sends {peer} hop limit {frame.hop_limit}, not one less than it got"
            )
        if frame.hop_limit == 0 and not is_application(peer):
            raise Violation("hop-limit", node, f"sends {peer} an Interest with hop limit 0")

    def _check_data(self, here: _Node, node: str, peer: str, frame: Frame, now: int) -> None:
        if frame.wire not in here.held:
            raise Violation("unasked", node, f"sends {peer} Data that have not come from anywhere")
        came, origin = here.held[frame.wire]
        is_fresh = came == now or now < came + frame.freshness_ms * MS_NS
        waiting = [
            ask
            for key, ask in here.asked.get(peer, {}).items()
            if ask.ended < 0 and ask.expiry > now and frame.satisfies(key) and (is_fresh or not key[2])
            if now in (came, ask.at)  # from the store, they answer what comes
        ]
        of_now = [ask for ask in waiting if ask.at == now and ask.repeated and ask.passed is None]
        if came != now and len(of_now) > 1:
            of_now[0].repeated -= 1  # of what is stored, each gets a copy: in which order is not seen
            for ask in of_now:
                ask.is_doubtful = True
            return
        found = is_back = is_of_now = False
        passing: _Ask | None = None
        for ask in waiting:
            if came == now and origin == peer and ask.at != now:
                is_back = True  # unless they are for another Interest, that has come since
            elif ask.at == now and ask.repeated > (came != now):
                # Of several Interests of this instant each may be answered by itself.
                ask.repeated -= not is_of_now
                ask.is_doubtful = True
                found = is_of_now = True
            elif ask.passed is None:
                ask.ended = now
                found = True
            elif frame.name not in ask.passed or frame.name in ask.again:
                passing = ask
        if not found and passing is not None and passing.passed is not None:
            passing.passed.add(frame.name)
            passing.again.discard(frame.name)
        elif not found and is_back:
            raise Violation("unasked", node, f"sends {peer} the Data that have just come from there")
        elif not found:
            raise Violation("unasked", node, f"sends {peer} Data for which no Interest of it waits")

    def _check_nack(self, here: _Node, node: str, peer: str, frame: Frame, now: int) -> None:
        passage = here.passages.get((frame.name, frame.nonce))
        if passage is None or passage.refused[peer] >= passage.came[peer]:
            raise Violation(
                "refusal", node, f"sends {peer} a Nack for an Interest that it does not have from there"
            )
        passage.refused[peer] += 1
        key = frame.key
        ask = here.asked.get(peer, {}).get(key)
        if ask is not None:
            self._check_first(ask, passage, node, peer, frame)
            ask.is_doubtful = True
        upstream = here.upstream.get(key, {})
        may_answer = any(until > now for _, until, _ in upstream.values())
        waited = [
            face
            for face, (_, until, is_certain) in upstream.items()
            if is_certain and until > now and face != peer
        ]
        is_again = passage.is_known or sum(passage.came.values()) > 1
        # A persistent Interest waits on after Data, and a copy of it is refused.
        is_persistent = ask is not None and ask.passed is not None
        is_again &= may_answer or is_persistent or passage.source != peer
        if frame.reason == DUPLICATE and is_again:
            if ask is not None and ask.nonces == {frame.nonce} and passage.came[peer] == 1:
                ask.ended = now  # what goes round a loop does not wait
            elif ask is not None and ask.passed:
                ask.again = set(ask.passed)  # or it has ended, and the next one is passed the same Data
            return
        if waited:
            raise Violation(
                "refusal", node, f"refuses an Interest of {peer} while {waited[0]} may still answer it"
            )
        if ask is not None and ask.last == frame.nonce:
            ask.ended = now

    def _check_first(self, ask: _Ask, passage: _Passage, node: str, peer: str, frame: Frame) -> None:
        """Check that a Nack is the first outcome of an Interest."""
        is_certain = not ask.is_doubtful and passage.came[peer] == 1 and not ask.passed
        if ask.ended >= 0 and is_certain and frame.nonce in ask.nonces:
            raise Violation("refusal", node, f"sends {peer} a Nack for an Interest that has been answered")


def is_application(peer: str) -> bool:
    """Tell an application's face from a neighbour's by its label."""
    return "/" in peer


def _is_open(ask: _Ask, now: int) -> bool:
    """Tell whether somebody waits, or has been answered at this very instant."""
    return ask.expiry > now and ask.ended in (-1, now)
