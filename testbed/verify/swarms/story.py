"""Stories of swarms of peers, drawn from a seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import ClassVar, Literal, NamedTuple, get_args

from base.units import SECOND
from ssb.ending import end_content
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.message import Message
from testbed.verify.kit.draw import Link, draw_links
from testbed.verify.kit.story import Step, Story

POOL = 6
"""Different feeds."""
LONGEST = 16
"""Messages of a feed."""
_FORKED_AT = 5
_BAD: dict[str, list[float]] = {
    "loss_percent": [0.0, 1.0, 5.0],
    "reorder_percent": [0.0, 2.0],
    "duplicate_percent": [0.0, 2.0],
    "jitter_ms": [0.0, 0.4],
}
"""What links may do, and how much."""

Hostility = Literal["forges", "skips", "lies", "stalls", "babbles", "replays", "takes nothing"]
HOSTILE: tuple[Hostility, ...] = get_args(Hostility)
RoomKind = Literal["works", "drops", "delays", "impersonates", "alters", "misleads", "invents", "swallows"]
ROOM_KINDS: tuple[RoomKind, ...] = get_args(RoomKind)


class Request(NamedTuple):
    """A message that asks to delete contents: its number, and the feed and the numbers of those it names."""

    number: int
    of: int
    named: tuple[int, ...]


@dataclass(frozen=True)
class Swarm(Story):
    """A story.

    A step is "write" (a peer, a feed), "follow" and "leave" (a peer, a feed), "block" (a feed, a peer), "cut"
    and "heal" (the two ends of a link), "restart" and "forget" (a peer; it loses others' positions), "want"
    (a peer that looks for a message by its id, the feed, the number), "drop" and "fetch" (a peer whose user
    deletes the content of a message there, or asks for its blob; the feed, the number). A user does "say"
    and "name" alone, and to another user "befriend", "invite", "join" and "remove" (a device), and "intrude"
    (it writes false messages, to become a device of the other's identity, or to end it). "enter" and "exit"
    (a peer, a room) begin and end a visit; a room may "restart", too.

    Attributes:
        seed: of the links and of the peers' draws.
        encrypts: whether streams are encrypted.
        peers: their names; each is on a node of that name.
        links: of the network: two nodes, and the link's parameters.
        calls: who calls whom.
        feeds: a feed's number in the pool -> its writer, or the writers of its two branches.
        follows: peer -> feeds from the start.
        hostile: peer -> its behaviour.
        ends: a feed that ends -> the number of its last message and, if it has one, its successor.
        old: peers that know of no ends, as stock peers do: they write and pass on what is behind one.
        holes: a feed whose contents stand beside it -> its requests to delete some.
        keepers: peers that do not obey requests to delete.
        users: peers that have an account, and so a feed of their own, which may be a device of an identity.
        rooms: room -> its behaviour; each is on a node of that name.
        visits: which peer is in which room from the start.
        friends: pairs that meet in rooms; users meet by what they follow.
    """

    PAIRS: ClassVar[Mapping[str, str]] = {"cut": "heal"}

    encrypts: bool
    peers: tuple[str, ...]
    links: tuple[Link, ...]
    calls: tuple[tuple[str, str], ...]
    feeds: dict[int, tuple[str, ...]]
    follows: dict[str, frozenset[int]]
    hostile: dict[str, Hostility]
    ends: dict[int, tuple[int, ...]] = field(default_factory=dict)
    old: frozenset[str] = frozenset()
    holes: dict[int, tuple[Request, ...]] = field(default_factory=dict)
    keepers: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    rooms: dict[str, RoomKind] = field(default_factory=dict)
    visits: tuple[tuple[str, str], ...] = ()
    friends: tuple[tuple[str, str], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.peers, *self.rooms)

    @property
    def honest(self) -> tuple[str, ...]:
        """The honest peers."""
        return tuple(peer for peer in self.peers if peer not in self.hostile)


@cache
def author(feed: int) -> Identity:
    """Return the author of a feed of the pool."""
    return Identity.from_seed(Random(f"swarm {feed}").randbytes(32))


@cache
def messages(feed: int, branch: int = 0, end: tuple[int, ...] = ()) -> tuple[Message, ...]:
    """Return a feed of the pool; the two branches differ after some messages.

    `end` is one of Swarm.ends; what its author has signed after it is there, too.
    """
    rng = Random(f"swarm {feed}")
    identity = Identity.from_seed(rng.randbytes(32))
    if end:
        return _ended(feed, identity, end)
    common = generate_feed(rng, _FORKED_AT, identity)
    rest = generate_feed(
        Random(f"swarm {feed} {branch}"), LONGEST - _FORKED_AT, tip=common[-1], identity=identity
    )
    return (*common, *rest)


def _ended(feed: int, identity: Identity, end: tuple[int, ...]) -> tuple[Message, ...]:
    last, *successor = end
    rng = Random(f"swarm {feed} to {last}")
    made = generate_feed(rng, last - 1, identity)
    content = end_content(identity.ref, *map(author, successor))
    made.append(Message.create(identity, made[-1] if made else None, content, 1))
    return (*made, *generate_feed(rng, LONGEST - last, identity, made[-1]))


def make_swarm(seed: int) -> Swarm:
    """Draw a story."""
    rng = Random(f"swarms {seed}")
    peers = tuple(f"p{number}" for number in range(rng.randint(2, 6)))
    hostile = {}
    if rng.random() < 0.5:
        for peer in rng.sample(peers, rng.randint(1, max(1, len(peers) // 2))):
            hostile[peer] = rng.choice(HOSTILE)
    honest = [peer for peer in peers if peer not in hostile]
    links = _links(rng, peers)
    calls = _calls(rng, peers)
    feeds: dict[int, tuple[str, ...]] = {}
    for feed in range(rng.randint(1, POOL)):
        writers = rng.sample(honest, min(len(honest), 2 if rng.random() < 0.1 else 1))
        feeds[feed] = tuple(writers) or (peers[0],)
    follows = {
        peer: frozenset(feed for feed, writers in feeds.items() if peer in writers or rng.random() < 0.75)
        for peer in peers
    }
    steps = _steps(rng, peers, honest, links, feeds)
    encrypts = rng.random() < 0.7
    ends, old = _ends(Random(f"swarms {seed} ends"), honest, feeds)
    last, holes = steps[-1].at, dict[int, tuple[Request, ...]]()
    keepers = frozenset[str]()
    users, more = _users(Random(f"swarms {seed} users"), [peer for peer in honest if peer not in old], last)
    if not users:
        more = _wants(Random(f"swarms {seed} wants"), honest, feeds, ends, last)
        holes, about_contents = _holes(Random(f"swarms {seed} holes"), honest, feeds, ends, last)
        more += about_contents
        luck = Random(f"swarms {seed} keepers")
        keepers = frozenset(peer for peer in honest if holes and luck.random() < 0.2)
    steps = tuple(sorted(steps + more, key=lambda step: step.at))
    swarm = Swarm(
        seed, steps, encrypts, peers, links, calls, feeds, follows, hostile, ends, old, holes, keepers, users
    )
    return _with_rooms(Random(f"swarms {seed} rooms"), swarm)


def _with_rooms(rng: Random, swarm: Swarm) -> Swarm:
    """In some stories, let peers visit rooms, and meet there instead of calling each other, or besides."""
    if rng.random() < 0.8:
        return swarm
    kinds = ["works", *ROOM_KINDS]
    rooms = {f"h{number}": rng.choice(kinds) for number in range(rng.choice([1, 2, 2]))}
    routers = sorted({link["b"] for link in swarm.links})
    links = draw_links(
        rng, [(room, rng.choice(routers)) for room in rooms], delays=[0.5, 40.0], bad=0.3, share=1.0, **_BAD
    )
    visits = tuple((peer, room) for peer in swarm.peers for room in rooms if rng.random() < 0.85)
    friends, calls = list[tuple[str, str]](), list[tuple[str, str]]()
    for call in swarm.calls:
        luck = rng.random()
        friends += [call] if luck < 0.8 else []
        calls += [call] if luck > 0.6 else []
    steps = [
        Step(0, "befriend", pair) for one in friends for pair in (one, one[::-1]) if pair[0] in swarm.users
    ]

    def at() -> int:
        return rng.randint(0, swarm.last)

    for _ in range(rng.choice([0, 2, 4, 8])):
        steps.append(
            Step(
                at(), rng.choice(["enter", "enter", "exit"]), (rng.choice(swarm.peers), rng.choice([*rooms]))
            )
        )
    for _ in range(rng.choice([0, 0, 1, 2])):
        steps.append(Step(at(), "restart", (rng.choice([*rooms]),)))
    if rng.random() < 0.3:
        link, time = rng.choice(links), at()
        steps.append(Step(time, "cut", (link["a"], link["b"])))
        steps.append(Step(time + rng.randint(1, 8) * SECOND, "heal", (link["a"], link["b"])))
    return replace(
        swarm,
        steps=tuple(sorted((*swarm.steps, *steps), key=lambda step: step.at)),
        encrypts=True,  # or rooms could read
        links=swarm.links + links,
        calls=tuple(calls),
        rooms=rooms,
        visits=visits,
        friends=tuple(friends),
    )


def _ends(
    rng: Random, honest: list[str], feeds: dict[int, tuple[str, ...]]
) -> tuple[dict[int, tuple[int, ...]], frozenset[str]]:
    """Draw the ends of some feeds, and the peers that know of none."""
    ends: dict[int, tuple[int, ...]] = {}
    for feed, writers in feeds.items():
        if len(writers) == 1 and rng.random() < 0.25:
            others = [other for other in feeds if other != feed]
            successor = [rng.choice(others)] if others and rng.random() < 0.7 else []
            ends[feed] = (rng.randint(1, LONGEST // 2), *successor)
    old = frozenset(peer for peer in honest if ends and rng.random() < 0.25)
    return ends, old


def _wants(
    rng: Random,
    honest: list[str],
    feeds: dict[int, tuple[str, ...]],
    ends: dict[int, tuple[int, ...]],
    last: int,
) -> tuple[Step, ...]:
    """In some stories, draw wants of single messages of feeds that are not forked."""
    whole = [feed for feed, writers in feeds.items() if len(writers) == 1]
    if not honest or not whole or rng.random() < 0.7:
        return ()
    steps = []
    for _ in range(rng.randint(1, 6)):
        feed = rng.choice(whole)
        number = rng.randint(1, ends[feed][0] if feed in ends else LONGEST // 2)
        steps.append(Step(rng.randint(0, last), "want", (rng.choice(honest), feed, number)))
    return tuple(steps)


def _holes(
    rng: Random,
    honest: list[str],
    feeds: dict[int, tuple[str, ...]],
    ends: dict[int, tuple[int, ...]],
    last: int,
) -> tuple[dict[int, tuple[Request, ...]], tuple[Step, ...]]:
    """In some stories, draw feeds with contents beside them, and what users do about these."""
    able = [feed for feed, writers in feeds.items() if len(writers) == 1 and feed not in ends]
    if not honest or not able or rng.random() < 0.8:
        return {}, ()
    holes: dict[int, tuple[Request, ...]] = {}
    for feed in sorted(rng.sample(able, rng.randint(1, len(able)))):
        requests = []
        for number in sorted(rng.sample(range(2, LONGEST), rng.randint(0, 3))):
            of = rng.choice([*holes, feed]) if rng.random() < 0.4 else feed
            named = rng.sample(range(1, number), rng.randint(1, min(4, number - 1)))
            requests.append(Request(number, of, tuple(sorted(named))))
        holes[feed] = tuple(requests)
    steps = []
    for _ in range(rng.choice([0, 2, 4, 8])):
        do = rng.choice(["drop", "drop", "fetch", "restart"])
        content = (rng.choice([*holes]), rng.randint(1, LONGEST // 2)) if do != "restart" else ()
        steps.append(Step(rng.randint(0, last), do, (rng.choice(honest), *content)))
    return holes, tuple(steps)


def _users(rng: Random, able: list[str], last: int) -> tuple[frozenset[str], tuple[Step, ...]]:
    """In some stories, draw users, and what they do to be devices of one identity."""
    if len(able) < 2 or rng.random() < 0.9:
        return frozenset(), ()
    steps = []

    def add(do: str, *what: str, after: int = 0) -> int:
        at = rng.randint(after, last)
        steps.append(Step(at, do, what))
        return at

    for user in able:
        for do in rng.choices(["say", "name", "befriend"], k=rng.randint(0, 4)):
            add(do, user, *rng.sample([other for other in able if other != user], do == "befriend"))
    for _ in range(rng.randint(1, 3)):
        one, other = rng.sample(able, 2)
        begun = add("invite", one, other)
        for _ in range(3):
            add("join", other, one, after=begun)
        if rng.random() < 0.3:
            add("remove", one, other, after=max(begun, last * 2 // 3))
        if rng.random() < 0.4:
            add("intrude", *rng.sample(able, 2), after=begun)
    return frozenset(able), tuple(steps)


def _links(rng: Random, peers: tuple[str, ...]) -> tuple[Link, ...]:
    """Join the nodes to one or two routers, by possibly bad links."""
    routers = ["r0"] if rng.random() < 0.6 else ["r0", "r1"]
    ends = [(peer, rng.choice(routers)) for peer in peers]
    if len(routers) == 2:
        ends.append(("r0", "r1"))
    return draw_links(
        rng,
        ends,
        delays=[0.5, 5.0, 40.0],
        bad=0.6,
        share=0.7,
        **_BAD,
    )


def _calls(rng: Random, peers: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Draw the calls: all peers are connected, and some pairs call each other."""
    calls = set()
    for number, peer in enumerate(peers[1:], start=1):
        pair = (peer, rng.choice(peers[:number]))
        calls.add(pair if rng.random() < 0.5 else pair[::-1])
    for one in peers:
        for other in peers:
            if one != other and rng.random() < 0.25:
                calls.add((one, other))
    return tuple(sorted(calls))


def _steps(
    rng: Random,
    peers: tuple[str, ...],
    honest: list[str],
    links: tuple[Link, ...],
    feeds: dict[int, tuple[str, ...]],
) -> tuple[Step, ...]:
    steps: list[Step] = []
    last = rng.randint(2, 12) * SECOND

    def at() -> int:
        return rng.randint(0, last)

    for feed, writers in feeds.items():
        for writer in writers:
            steps += [Step(at(), "write", (writer, feed)) for _ in range(rng.randint(1, LONGEST))]
    for _ in range(rng.choice([0, 0, 1, 2])):
        link = rng.choice(links)
        time = at()
        steps.append(Step(time, "cut", (link["a"], link["b"])))
        steps.append(Step(time + rng.randint(1, 8) * SECOND, "heal", (link["a"], link["b"])))
    for _ in range(rng.choice([0, 0, 1, 2])):
        if honest:
            steps.append(Step(at(), rng.choice(["restart", "forget"]), (rng.choice(honest),)))
    for _ in range(rng.choice([0, 1, 3, 6])):
        peer, feed = rng.choice(peers), rng.choice([*feeds])
        if peer not in feeds[feed]:
            steps.append(Step(at(), rng.choice(["follow", "leave"]), (peer, feed)))
    if rng.random() < 0.15:
        peer, feed = rng.choice(peers), rng.choice([*feeds])
        if peer not in feeds[feed]:
            steps.append(Step(at(), "block", (feed, peer)))
    return tuple(sorted(steps, key=lambda step: step.at))
