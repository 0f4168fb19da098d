"""A story of forwarders, of pushed feeds, and of classic NDN.

Times are integer microseconds. The only randomness is `seed`, from which the world draws a fate for each
frame of each link independently; so removing a step leaves the luck of all other links unchanged. Given
`fates` replace these: how the shrinker pins the few that matter.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from testbed.verify.kit import story as kit
from testbed.verify.kit.story import Step

MS = 1_000  # in microseconds, as all times here
SECOND = 1_000_000

MAX_ITEMS = 40
RECOVERIES = ("in-network", "go-back-n", "selective")


@dataclass(frozen=True)
class Node:
    """A host. Without `push` its forwarder does not implement controlled push.

    strategy: as users write it; packets: capacity of its content store; pending: of its PIT. turn: how long
    its processor is busy after each turn; frames that arrive meanwhile are received together in the next, and
    are answered after the last of them.
    """

    name: str
    push: bool = True
    recovery: str = "in-network"
    cache_items: int = 256
    cache_feeds: int = 1024
    strategy: str = "best-route"
    packets: int = 64
    pending: int = 1 << 20
    turn: int = 0


@dataclass(frozen=True)
class Link:
    """A link, symmetric.

    delay: one way. lost, twice, late: probabilities per frame; a late one is delayed by up to `lateness`
    more. rate_kbit: with a queue of `queue` frames; None: infinite. mtu: in bytes; reliable: its ends
    retransmit lost frames; marks: they mark congestion by their queues.
    """

    a: str
    b: str
    delay: int = 5 * MS
    lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    lateness: int = 0
    rate_kbit: int | None = None
    queue: int = 50
    mtu: int = 1500
    reliable: bool = False
    marks: bool = False


@dataclass(frozen=True)
class Feed:
    """A feed: `devices` are its publishing nodes, each from item 1.

    They publish the same items; with a `fork` the second and later devices have different ones from that item
    on. `pool`: index of the prepared feed of that format, distinct within a story.
    """

    format: str
    pool: int
    devices: tuple[str, ...]
    fork: int | None = None


@dataclass(frozen=True)
class Subscriber:
    """An application that subscribes to a feed. It takes up to `batch` items every `pause`; at once if that
    is 0.
    """

    name: str
    node: str
    feed: int
    credit: int = 8
    lifetime_ms: int = 10_000
    recovery: str = "in-network"
    batch: int = 1
    pause: int = 0


@dataclass(frozen=True)
class Prefix:
    """Names under /NAME, and their producers of equal classic Data.

    manner: "answers", "never", "nacks", or "nacks-first": each name once. delay: of an answer.
    """

    name: str
    producers: tuple[str, ...]
    manner: str = "answers"
    delay: int = 0
    freshness_ms: int = 0
    size: int = 100


@dataclass(frozen=True)
class Log:
    """A feed that a layering of the testbed carries by classic Interests; `times`: of its items."""

    name: str
    node: str
    layering: str
    times: tuple[int, ...]


@dataclass(frozen=True)
class Follow:
    """An application that follows a log; takes an item every `pause`, all at once if that is 0."""

    name: str
    node: str
    log: str
    start: int = 0
    pause: int = 0


@dataclass(frozen=True)
class Fate:
    """The fate of the n-th frame from `a` to `b`: lost, twice (the copy `by` later) or late (`by`)."""

    a: str
    b: str
    n: int
    kind: str
    by: int = 0


@dataclass(frozen=True)
class Story(kit.Story):
    """A world and its events.

    A step is publish (feed, device, items); subscribe, cancel, stall, read (subscriber); cut (a, b,
    signalled); heal (a, b); restart (node, signalled); inject (a, b, kind, salt): to b, as if from a; renew
    (a, b): a removes its face to b and makes another; ask (node, application, prefix, number, selectors,
    lifetime_ms, hop_limit, tries, again_ms): see testbed.verify.classic.clients.

    routing: next hops of a node are its neighbours on a shortest path ("single": one of them), all that are
    nearer to a publisher ("downhill"), or all of them, nearest first ("all"), with loops to be detected;
    those on loop-free paths to a publisher, as computed by topologies.routing ("ways"); or none ("none").
    `converge`: delay until routes by "ways" follow a link's change; None: never.

    calm: from then on frames have no faults and links are up, except cut `dead` ones.
    """

    MS: ClassVar[int] = MS

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    feeds: tuple[Feed, ...]
    subscribers: tuple[Subscriber, ...]
    calm: int
    routing: str = "downhill"
    dead: tuple[tuple[str, str], ...] = ()
    fates: tuple[Fate, ...] | None = None
    prefixes: tuple[Prefix, ...] = ()
    logs: tuple[Log, ...] = ()
    follows: tuple[Follow, ...] = ()
    converge: int | None = None

    @property
    def is_classic(self) -> bool:
        """Whether classic NDN is included."""
        return bool(self.prefixes or self.logs)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes)

    @property
    def span(self) -> int:
        """See kit.Story: after the calm begins, only publications follow."""
        return self.calm

    def latest(self, step: Step) -> int:
        return self.calm + 20 * SECOND if step.do == "publish" else self.calm - 1

    def rounded(self, unit: int) -> Self:
        return replace(super().rounded(unit), calm=-(-self.calm // unit) * unit)


FORGERIES = ("noise", "cut-short", "flipped", "stranger", "misnumbered", "no-item", "stray-nack", "bad-proof")
"""Ineffective attacks on a link: these must change nothing."""

MISCHIEF = ("replay", "early", "greedy", "cancel")
"""Valid packets of an attacker, indistinguishable from the neighbour's own."""
