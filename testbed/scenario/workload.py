"""The workload of a scenario: its feeds with all messages, publishers and times."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from random import Random

from base.units import MS
from forwarder.wire.feed import feed_name
from forwarder.wire.name import GENERIC, component, from_uri
from ssb.canonical import Value
from ssb.detached import SALT_BYTES, detach, reference_of, request
from ssb.ending import end_content
from ssb.export import read_export
from ssb.generate import FIRST_TIMESTAMP, generate_feed
from ssb.keys import Identity, blob_ref
from ssb.message import Message
from ssb.suites.countersignature import CountersignedLog, succession
from ssb.suites.suite import CLASSIC, SUITES, PrivateKey
from ssb_over_ndn.naming import LOGS
from testbed.errors import UserError
from testbed.layerings.nodes.workload import Feed, Workload
from testbed.scenario.conversation import in_conversation
from testbed.scenario.follow_graph import grow
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Deletion, Ending, Fetch, Fork, Schedule

_BULK_TEXT = "." * 800  # an item and its names fit into one frame


def load(scenario: Scenario) -> Workload:
    """Return a scenario's workload: an exported feed, or generated ones determined by its seed.

    Raises UserError.
    """
    requests: dict[str, dict[str, int]] = {}
    feeds = _exported_or_made(scenario)
    successors: dict[str, str] = {}
    if scenario.ending is not None:
        feeds = _ended(scenario, feeds[0], scenario.ending)
        if len(feeds) > 1:
            successors[feeds[0].key] = feeds[1].key
    if (told := scenario.workload.application) is not None:
        feeds = in_conversation(scenario, feeds, _follows(scenario, feeds)[0], told)
    if scenario.fork is not None and scenario.fork.cure == "feeds":
        second = Identity.from_seed(Random(f"device {scenario.seed}").randbytes(32))
        feeds.append(_branch(scenario, feeds[0], scenario.fork, second))
    if scenario.fork is not None and scenario.fork.cure == "merge":
        feeds.append(_merged(scenario, feeds[0], scenario.fork))
    asked: frozenset[str] = frozenset()
    if scenario.deletion is not None:
        feeds[0], asked = _detached(scenario, feeds[0], scenario.deletion)
    follows, blocks = _follows(scenario, feeds)
    replicated: dict[str, tuple[Feed, ...]] = {}
    if scenario.workload.fetch is not None:
        replicated = follows if scenario.workload.graph is not None else {}
        requests = _requests(scenario, _by_popularity(feeds, replicated), scenario.workload.fetch)
        follows = _request_counts(feeds, requests)
    branch, common = None, 0
    if scenario.fork is not None and scenario.fork.cure == "none":
        common = scenario.fork.after
        branch = _branch(scenario, feeds[0], scenario.fork, _identity(scenario, 0)[1])
    archive = scenario.archive
    return Workload(
        tuple(feeds),
        follows,
        branch,
        common,
        archive=None if archive is None else archive.node,
        retain=None if archive is None else archive.retain,
        bulk=tuple(_cross_traffic(scenario)),
        replicated=replicated,
        requests=requests,
        idle=_idle(scenario),
        idle_feeds=scenario.workload.idle_feeds,
        blocks=blocks,
        pictures=dict(_pictures(scenario, feeds)),
        successors=successors,
        asked=asked,
        disobedient=_disobedient(scenario),
        written=None if scenario.fork is None else 2 * scenario.workload.items - scenario.fork.after,
    )


def _exported_or_made(scenario: Scenario) -> list[Feed]:
    workload = scenario.workload
    if workload.feed is not None:
        exported = _exported(workload.feed)
        return [
            Feed(scenario.publisher, exported, _times(exported, workload.schedule, scenario.warmup_ms * MS))
        ]
    shares = shares_by_rank(workload.items, scenario.feed_count, workload.activity_exponent)
    stated = _statements(scenario)
    return [_made(scenario, index, items, stated) for index, items in enumerate(shares)]


def _cross_traffic(scenario: Scenario) -> Iterator[Feed]:
    for index, traffic in enumerate(scenario.cross_traffic):
        messages = _bulk(f"{scenario.seed} bulk {index}", traffic.items)
        yield Feed(traffic.source, messages, (0,) * len(messages))


def _idle(scenario: Scenario) -> dict[str, tuple[bytes, ...]]:
    """Return the prefixes of idle feeds: Workload.idle. A million names take about a second."""
    count, homes = scenario.workload.idle_feeds, scenario.sources
    if not count:
        return {}
    if scenario.routing.idle_names == "aggregated":
        return {home: (from_uri("/at") + component(GENERIC, home.encode()),) for home in homes[:count]}
    rng = Random(f"{scenario.seed} idle feeds")
    names = [feed_name(LOGS, rng.randbytes(32)) for _ in range(count)]
    return {home: tuple(names[number :: len(homes)]) for number, home in enumerate(homes[:count])}


def _by_popularity(feeds: Sequence[Feed], follows: Mapping[str, Sequence[Feed]]) -> list[Feed]:
    """Return feeds by their authors' followers, most first, if there is a follow graph."""
    followers = Counter(feed.key for followed in follows.values() for feed in followed)
    return sorted(feeds, key=lambda feed: -followers[feed.key])


def _requests(scenario: Scenario, feeds: Sequence[Feed], fetch: Fetch) -> dict[str, dict[str, int]]:
    """Draw the requests of each subscriber, with times: Workload.requests."""
    weights = {feed.key: 1 / rank**fetch.popularity_exponent for rank, feed in enumerate(feeds, start=1)}
    requests: dict[str, dict[str, int]] = {}
    for node in _following(scenario):
        random = Random(f"{scenario.seed} requests {node}")
        others = [feed.key for feed in feeds if feed.publisher != node]
        # Sequential draws without replacement (Efraimidis and Spirakis, 2006): the largest of u ** (1 /
        # weight) first, here by its logarithm.
        drawn = {key: random.expovariate(weights[key]) for key in others}
        time = scenario.warmup_ms * MS
        requests[node] = times = {}
        for key in sorted(others, key=lambda key: drawn[key])[: fetch.requests]:
            time += round(random.expovariate(1 / fetch.interval_ms) * MS)
            times[key] = time
    return requests


def _request_counts(
    feeds: Sequence[Feed], requests: Mapping[str, Mapping[str, int]]
) -> dict[str, tuple[Feed, ...]]:
    by_key = {feed.key: feed for feed in feeds}
    return {node: tuple(by_key[key] for key in times) for node, times in requests.items()}


def _following(scenario: Scenario) -> tuple[str, ...]:
    """Return the nodes that follow feeds."""
    return (*((scenario.archive.node,) if scenario.archive else ()), *scenario.subscribers)


_Feeds = dict[str, tuple[Feed, ...]]


def _follows(scenario: Scenario, feeds: Sequence[Feed]) -> tuple[_Feeds, _Feeds]:
    """Return the feeds that each node follows, and those that it blocks."""
    following = _following(scenario)
    if scenario.workload.graph is None:
        return {node: _followed(scenario, feeds, node) for node in following}, {}

    def of(chosen: Mapping[str, Sequence[str]]) -> _Feeds:
        return {node: tuple(feed for feed in feeds if feed.publisher in chosen[node]) for node in following}

    follows, blocks = _graph(scenario)
    return of(follows), of(blocks) if scenario.workload.graph.blocks else {}


def _graph(scenario: Scenario) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the follows and blocks of each person, by their nodes."""
    graph = scenario.workload.graph
    assert graph is not None
    authors = list(dict.fromkeys(_publisher(scenario, index) for index in range(scenario.feed_count)))
    follows = grow(authors, _following(scenario), graph, Random(f"{scenario.seed} graph"))
    random = Random(f"{scenario.seed} blocks")
    blocks = {}
    for person, whom in follows.items():
        others = [other for other in authors if other not in whom and other != person]
        blocks[person] = random.sample(others, min(graph.blocks, len(others)))
    return follows, blocks


def _publisher(scenario: Scenario, index: int) -> str:
    """Return the publishing node of a generated feed."""
    return scenario.sources[index % len(scenario.sources)]


def _statements(scenario: Scenario) -> dict[int, list[dict[str, str | bool]]]:
    """Return the contact messages of authors, by the number of their first feeds."""
    graph = scenario.workload.graph
    if graph is None or not graph.stated:
        return {}
    follows, blocks = _graph(scenario)
    feeds: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    for index in range(scenario.feed_count):
        publisher = _publisher(scenario, index)
        first.setdefault(publisher, index)
        feeds.setdefault(publisher, []).append(_identity(scenario, index)[1].ref)
    stated: dict[int, list[dict[str, str | bool]]] = {}
    for person, index in first.items():
        stated[index] = [
            {"type": "contact", "contact": feed, kind: True}
            for kind, whom in (("following", follows[person]), ("blocking", blocks[person]))
            for other in whom
            for feed in feeds[other]
        ]
    return stated


def _followed(scenario: Scenario, feeds: Sequence[Feed], node: str) -> tuple[Feed, ...]:
    """Choose the feeds of a subscriber or archive."""
    others = [feed for feed in feeds if feed.publisher != node]
    follows = scenario.workload.follows
    if follows is None or follows >= len(others):
        return tuple(others)
    chosen = sorted(Random(f"{scenario.seed} follows {node}").sample(range(len(others)), follows))
    return tuple(others[index] for index in chosen)


def publication_times(
    feed: Sequence[Message], schedule: Schedule, first: int, slowness: float = 1
) -> list[int]:
    """Return the publication time of each message, ns: the first at `first`, the others by their timestamps.

    All gaps are `slowness` times the schedule's. Timestamps are their authors' claims and may decrease; that
    counts as a gap of 0.
    """
    times = [first]
    for before, after in pairwise(feed):
        gap_ms = (after.timestamp - before.timestamp) / schedule.speed
        times.append(times[-1] + round(min(max(gap_ms, 0), schedule.idle_limit_ms) * slowness * MS))
    return times


def _times(feed: Sequence[Message], schedule: Schedule, first: int, slowness: float = 1) -> tuple[int, ...]:
    return tuple(publication_times(feed, schedule, first, slowness))


def _exported(path: str) -> tuple[Message, ...]:
    try:
        return tuple(read_export(Path(path)))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give a feed export's path") from error
    except ValueError as error:
        raise UserError(str(error)) from error


def shares_by_rank(items: int, feeds: int, exponent: float) -> list[int]:
    """Divide items among feeds by a power law of their rank, at least one each."""
    weights = [1 / rank**exponent for rank in range(1, feeds + 1)]
    spare, total = items - len(weights), sum(weights)
    exact = [1 + spare * weight / total for weight in weights]
    shares = [int(share) for share in exact]
    by_remainder = sorted(range(len(shares)), key=lambda index: (shares[index] - exact[index], index))
    for index in by_remainder[: items - sum(shares)]:
        shares[index] += 1
    return shares


def _identity(scenario: Scenario, index: int) -> tuple[Random, Identity]:
    """Return a generated feed's source of messages, and its author."""
    rng = Random(f"feed {scenario.seed}" if index == 0 else f"feed {scenario.seed} {index}")
    return rng, Identity.from_seed(rng.randbytes(32))


def _made(
    scenario: Scenario, index: int, items: int, stated: Mapping[int, Sequence[Mapping[str, str | bool]]]
) -> Feed:
    publisher = _publisher(scenario, index)
    if scenario.workload.fetch is not None:
        size = scenario.workload.fetch.segment_bytes
        segments = _bulk(f"{scenario.seed} object {index}", items, "." * size)
        return Feed(publisher, segments, (scenario.warmup_ms * MS,) * items)
    rng, identity = _identity(scenario, index)
    messages: list[Message] = []
    for content in stated.get(index, ()):
        tip = messages[-1] if messages else None
        messages.append(Message.create(identity, tip, content, FIRST_TIMESTAMP))
    tip = messages[-1] if messages else None
    messages += generate_feed(
        rng, items, identity, tip, scenario.workload.item_bytes, partial(_mentions, scenario, index)
    )
    slowness = 1.0 if index == 0 else (index + 1) ** scenario.workload.activity_exponent
    first = scenario.warmup_ms * MS
    if index:
        # Feeds start staggered: each somewhere in its first, longest gap.
        first += round(rng.random() * scenario.workload.schedule.idle_limit_ms * slowness * MS)
    times = _times(messages, scenario.workload.schedule, first, slowness)
    return Feed(publisher, tuple(messages), times, identity)


def _picture(scenario: Scenario, index: int, number: int) -> bytes | None:
    """Return the picture of a generated message, by its feed and its sequence number; None if it has none."""
    pictures = scenario.workload.pictures
    if pictures is None or (number - 1) % pictures.every:
        return None
    return Random(f"{scenario.seed} picture {index} {number}").randbytes(pictures.size_bytes)


def _mentions(scenario: Scenario, index: int, number: int) -> dict[str, Value]:
    """Return the field by which a message names its picture, as Patchwork writes it; none without one."""
    content = _picture(scenario, index, number)
    if content is None:
        return {}
    link = blob_ref(sha256(content).digest())
    return {"mentions": [{"link": link, "name": "photo.jpg", "size": len(content), "type": "image/jpeg"}]}


def _pictures(scenario: Scenario, feeds: Sequence[Feed]) -> Iterator[tuple[str, bytes]]:
    """Yield the reference and the bytes of each picture."""
    for index, feed in enumerate(feeds):
        for message in feed.messages:
            if (content := _picture(scenario, index, message.sequence)) is not None:
                yield blob_ref(sha256(content).digest()), content


def _branch(scenario: Scenario, feed: Feed, fork: Fork, identity: Identity) -> Feed:
    """Generate the feed of the author's second device: with the same key a continuation of the feed, with
    another one a feed of its own, with the same contents at the same times.
    """
    last, count = feed.messages[fork.after - 1], len(feed.messages) - fork.after
    size = scenario.workload.item_bytes
    author = _identity(scenario, 0)[1]
    branch = generate_feed(Random(f"branch {scenario.seed}"), count, author, last, size)
    times = _times((last, *branch), scenario.workload.schedule, feed.times[fork.after - 1])
    if identity == author:
        before = feed.messages[: fork.after], feed.times[: fork.after - 1]
        return Feed(fork.publisher, (*before[0], *branch), before[1] + times)
    own: list[Message] = []
    for message in branch:
        own.append(Message.create(identity, own[-1] if own else None, message.content, message.timestamp))
    return Feed(fork.publisher, tuple(own), times[1:], identity)


def _merged(scenario: Scenario, feed: Feed, fork: Fork) -> Feed:
    """Return the second device's own items, under an alias: both branches have items of the same numbers.

    What a device has read when it writes is not known before the run, so its peer signs these contents anew.
    """
    author = _identity(scenario, 0)[1]
    branch = _branch(scenario, feed, fork, author)
    own = slice(fork.after, None)
    alias = Identity.from_seed(Random(f"device {scenario.seed}").randbytes(32)).ref
    return Feed(fork.publisher, branch.messages[own], branch.times[own], author, alias=alias)


def _ended(scenario: Scenario, feed: Feed, ending: Ending) -> list[Feed]:
    """Return a feed up to its last item, and its successor, if there is one, with the rest."""
    rng = Random(f"successor {scenario.seed}")
    heir = None if ending.successor is None else Identity.from_seed(rng.randbytes(32))
    key = None
    if ending.suite != CLASSIC.name:
        suite, drawn = SUITES[ending.suite], Random(f"suite {scenario.seed}")  # the texts stay the same
        key = PrivateKey.from_seed(suite, drawn.randbytes(suite.seed_bytes))
    messages = feed.messages[: ending.after]
    if ending.is_told:
        assert feed.identity is not None
        before = messages[-2] if ending.after > 1 else None
        content = end_content(feed.key, heir)
        if key is not None and heir is not None:
            content |= succession(feed.key, heir.ref, key)
        last = Message.create(feed.identity, before, content, messages[-1].timestamp)
        messages = (*messages[:-1], last)
    ended = Feed(feed.publisher, messages, feed.times[: ending.after], feed.identity)
    if ending.successor is None or heir is None:
        return [ended]
    rest = len(feed.messages) - ending.after
    following = generate_feed(rng, rest, heir, None, scenario.workload.item_bytes)
    if key is not None:
        log = CountersignedLog(heir)
        for message in following:
            assert isinstance(message.content, dict)
            log.write(key, message.content, message.timestamp)
        following = log.messages
    return [ended, Feed(ending.successor, tuple(following), feed.times[ending.after :], heir)]


def _detached(scenario: Scenario, feed: Feed, deletion: Deletion) -> tuple[Feed, frozenset[str]]:
    """Return a feed with its contents beside it, and a request in the place of one item; also the blobs that
    it asks to delete.
    """
    rng, identity = _identity(scenario, 0)
    messages: list[Message] = []
    contents: dict[int, bytes] = {}
    for message in feed.messages:
        if len(messages) == deletion.after:
            content = request([each.id for each in messages[: deletion.items]])
        else:
            assert isinstance(message.content, dict)
            content, blob = detach(identity.ref, message.content, rng.randbytes(SALT_BYTES))
            contents[message.sequence] = blob
        tip = messages[-1] if messages else None
        messages.append(Message.create(identity, tip, content, message.timestamp))
    references = (reference_of(message) for message in messages[: deletion.items])
    asked = frozenset(reference.blob for reference in references if reference is not None)
    return replace(feed, messages=tuple(messages), contents=contents), asked


def _disobedient(scenario: Scenario) -> frozenset[str]:
    """Draw the nodes that do not obey a request to delete."""
    if scenario.deletion is None:
        return frozenset()
    nodes = scenario.subscribers
    number = round(len(nodes) * scenario.deletion.ignored_percent / 100)
    return frozenset(Random(f"{scenario.seed} disobedient").sample(nodes, number))


def _bulk(seed: str, items: int, text: str = _BULK_TEXT) -> tuple[Message, ...]:
    """Generate messages of equal size, by default each as large as fits into a frame."""
    identity = Identity.from_seed(Random(seed).randbytes(32))
    messages: list[Message] = []
    tip: Message | None = None
    for number in range(items):
        tip = Message.create(identity, tip, {"type": "post", "text": text}, number)
        messages.append(tip)
    return tuple(messages)
