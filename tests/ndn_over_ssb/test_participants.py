"""Interests and Data across customers, forwarding providers and repositories, in virtual time."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from base.token_bucket import TokenBucket
from base.units import MS, SECOND
from forwarder.wire.lp import CONGESTION, NO_ROUTE
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import make_data, parse_data
from ndn_over_ssb.contract import Terms
from testbed.verify.providers.network import Consumer, End, Producer, ProviderNetwork, identity

REFUSED = f"nack {NO_ROUTE}"


def network(*pairs: tuple[str, str], **link: Any) -> ProviderNetwork:
    """Nodes that are joined in pairs, of which the first one calls the second."""
    return ProviderNetwork([{"a": a, "b": b, "delay_ms": 5.0, **link} for a, b in pairs], pairs)


def chain(
    providers: int = 1,
    terms: Terms | None = None,
    others: tuple[str, ...] = (),
    between: Terms | None = None,
    producer: Producer | None = None,
    **link: Any,
) -> ProviderNetwork:
    """Customers at the first of some providers in a row, and a repository of /a behind the last one."""
    names = [f"nfp{number}" for number in range(1, providers + 1)]
    nodes = ["customer", *names, "repository"]
    ends = [*pairwise(nodes), ("root", names[0]), *((each, names[0]) for each in others)]
    world = network(*ends, **link)
    world.add("root")
    for name in names:
        world.add(name, offer=Terms(transit=True))
    world.add("repository", producer=producer or Producer(answer))
    for name in ("customer", *others):
        world.add(name)
    transit = (between or Terms())._replace(transit=True)
    for here, there in pairwise(names):
        world.request(here, there, transit)
    world.allocate("/a", "repository", ("repository",))
    world.run(3)
    world.request("repository", names[-1], between)
    for name in ("customer", *others):
        world.request(name, names[0], terms)
    world.run(10)
    return world


def answer(name: bytes, size: int = 100) -> bytes:
    return make_data(name, name.ljust(size, b"."), freshness_ms=10_000)


def is_answered(world: ProviderNetwork, uri: str, name: str = "customer") -> bool:
    ends = world.ends(name, uri)
    return len(ends) == 1 and isinstance(ends[0], bytes) and to_uri(parse_data(ends[0]).name) == uri


@pytest.mark.parametrize("providers", [1, 2, 3])
def test_data_comes_as_fast_as_links_carry_it(providers: int) -> None:
    """EBT passes a message on at once, so that nothing is added to the links' delays."""
    world = chain(providers)
    asked = world.now
    world.ask("customer", "/a/1")
    world.run(5)
    assert is_answered(world, "/a/1")
    assert (world.consumers["customer"].times["/a/1"] - asked) / MS == 2 * 5 * (providers + 1)


def test_interests_are_aggregated_and_data_are_cached() -> None:
    producer = Producer(answer)
    world = chain(2, others=("other",), producer=producer)
    world.ask("customer", "/a/1")
    world.ask("other", "/a/1")
    world.run(1)
    assert is_answered(world, "/a/1")
    assert is_answered(world, "/a/1", "other")
    assert producer.asked == ["/a/1"]
    world.ask("other", "/a/1")
    world.run(1)
    assert len(world.ends("other", "/a/1")) == 2
    assert producer.asked == ["/a/1"]


def test_a_name_that_nobody_has_is_refused() -> None:
    world = chain(3)
    world.allocate("/empty", "customer")
    world.run(1)
    world.ask("customer", "/b/1", "/empty/1")
    world.run(1)
    assert world.ends("customer", "/b/1") == world.ends("customer", "/empty/1") == [REFUSED]


def test_a_delegated_prefix_is_not_its_owners_any_more() -> None:
    """Also if nobody answers for it yet."""
    world = chain(2)
    space = world.nodes["repository"].name_space
    title = space.holdings()[from_uri("/a")].title
    world.publish_statement(
        "repository", "delegate", title=title, prefix=from_uri("/a/b"), to=identity("customer").ref
    )
    world.run(1)
    world.ask("customer", "/a/b/1", "/a/c/1")
    world.run(1)
    assert world.ends("customer", "/a/b/1") == [REFUSED]
    assert is_answered(world, "/a/c/1")


def test_a_revoked_prefix_is_served_no_more() -> None:
    """Within one round of replication: as long as the root's message takes. Caches keep nothing of it."""
    world = chain(3)
    world.ask("customer", "/a/1", lifetime_ms=1000)
    world.run(1)
    assert is_answered(world, "/a/1")
    allocation = world.nodes["root"].name_space.holdings()[from_uri("/a")].allocation
    world.publish_statement("root", "revoke", allocation=allocation)
    world.run(0.020)  # to the provider next to the customer there are two links of 5 ms
    world.ask("customer", "/a/1", "/a/2")
    world.run(1)
    assert world.ends("customer", "/a/1")[1:] == world.ends("customer", "/a/2") == [REFUSED]
    (change,) = [c for c in world.nodes["nfp3"].take_changes() if not c.holder]
    assert change.prefix == from_uri("/a")


def test_without_a_contract_nothing_is_forwarded() -> None:
    world = network(("customer", "nfp1"), ("root", "nfp1"))
    world.add("root")
    world.add("nfp1", offer=Terms(), admits=lambda who: who == identity("root").ref)
    world.add("customer")
    world.request("customer", "nfp1")
    world.run(5)
    assert world.nodes["nfp1"].counters["requests refused"] == 0  # it does not even read the customer's log
    world.ask("customer", "/a/1")
    world.run(1)
    assert world.ends("customer", "/a/1") == [REFUSED]
    assert not world.nodes["nfp1"].links()


def test_one_that_offers_nothing_accepts_nothing() -> None:
    world = network(("customer", "other"), ("root", "other"))
    world.add("root")
    world.add("other")
    world.add("customer")
    world.do("other", lambda node: node._side.peer.want(identity("customer").ref, world.now))
    contract = world.request("customer", "other")
    world.run(5)
    assert world.nodes["customer"].contracts[contract].refusal == "not a provider"


def test_a_customer_cannot_fill_its_providers_log() -> None:
    world = chain(1)
    before = len(world.stores["nfp1"].after(identity("nfp1").ref, 0, 10_000))
    for _ in range(200):
        world.request("customer", "nfp1")
    world.run(10)
    written = len(world.stores["nfp1"].after(identity("nfp1").ref, 0, 10_000)) - before
    assert written <= 3 * 20  # follow, accept, begin
    assert world.nodes["nfp1"].counters["too many requests of one customer"] >= 180
    world.ask("customer", "/a/1")
    world.run(1)
    assert is_answered(world, "/a/1")


def test_a_message_of_an_impossible_time_ends_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    world = chain(1)
    monkeypatch.setattr(world.nodes["customer"]._side, "ms", lambda now: 1e308)
    world.ask("customer", "/a/1")
    world.run(1)
    assert world.nodes["nfp1"].counters["line: a message of a time that is none"] == 1
    assert len(world.nodes["nfp1"].in_force()) == 1  # with the repository


@pytest.mark.parametrize("unsure", ["nfp1", "customer"])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_one_that_is_unsure_of_its_feed_says_later_what_it_has_to(unsure: str, is_restarted: bool) -> None:
    """It goes on in the meantime, and takes up its contracts when it may write again."""
    world = chain(1, others=("other",))
    provider = world.nodes["nfp1"]
    world.unsure.add(unsure)
    if is_restarted:
        world.restart(unsure)
        world.run(5)
        world.ask("customer", "/a/0")
        world.run(5)
        assert not is_answered(world, "/a/0")
    elif unsure == "nfp1":
        world.request("customer", "nfp1")
        (broken,) = (link for link in provider._links if link.contract.customer == identity("other").ref)
        provider._abort(broken, "by the test", world.now)
        world.run(5)
        assert len(provider.in_force()) == 2
    world.unsure.clear()
    world.do(unsure, lambda node: None)
    world.run(30)
    for name in ("customer", "other"):
        world.ask(name, f"/a/{name}")
    world.run(2)
    assert is_answered(world, "/a/customer")
    is_broken = unsure == "nfp1" and not is_restarted
    assert is_answered(world, "/a/other", "other") is not is_broken
    assert is_broken == any(
        contract.has_ended for contract in provider.contracts if contract.customer == identity("other").ref
    )


def test_a_customer_asks_for_what_it_has_agreed_on() -> None:
    world = chain(1, Terms(prefixes=(from_uri("/a/x"),)))
    world.ask("customer", "/a/x/1", "/a/y/1")
    world.run(1)
    assert is_answered(world, "/a/x/1")
    assert world.ends("customer", "/a/y/1") == [REFUSED]
    assert world.nodes["nfp1"].counters["Interests outside the contract"] == 1


def every(world: ProviderNetwork, name: str, gap_ms: float, count: int, uri: str) -> None:
    """Have a consumer ask for names in a row, a certain time apart."""
    for number in range(count):
        world.network.change(
            world.now + int(number * gap_ms * MS), lambda number=number: world.ask(name, f"{uri}/{number}")
        )


def test_a_flooding_customer_is_held_to_its_rate_and_others_keep_theirs() -> None:
    world = chain(2, Terms(rate=50), others=("other",))
    every(world, "customer", 0.5, 10_000, "/a/flood")
    every(world, "other", 25, 200, "/a/other")
    world.run(12)
    ends = world.consumers["customer"].ends
    served = sum(isinstance(end, bytes) for (end,) in ends.values())
    assert 50 * 4.5 <= served <= 50 * 7  # in 5 s
    assert {end for (end,) in ends.values() if not isinstance(end, bytes)} == {f"nack {CONGESTION}"}
    others = [world.ends("other", f"/a/other/{number}") for number in range(200)]
    assert sum(isinstance(end, bytes) for (end,) in others) >= 0.9 * 200
    assert world.nodes["nfp1"].counters["Interests above the rate"] == 0  # its own participant refuses them


def test_one_that_does_not_keep_to_its_rate_is_not_listened_to() -> None:
    """A participant that lets all Interests out gets Nacks; then its feed is not received for a while."""
    world = chain(2, Terms(rate=50), others=("other",))
    (link,) = world.nodes["customer"]._links
    link.allowance = TokenBucket(1, SECOND, 0)
    every(world, "customer", 0.5, 10_000, "/a/flood")
    every(world, "other", 25, 200, "/a/other")
    world.run(12)
    ends = world.consumers["customer"].ends
    assert sum(isinstance(end, bytes) for (end,) in ends.values()) <= 50 * 7
    others = [world.ends("other", f"/a/other/{number}") for number in range(200)]
    assert sum(isinstance(end, bytes) for (end,) in others) >= 0.9 * 200
    provider = world.nodes["nfp1"]
    assert 0 < provider.counters["Interests above the rate"] < 10_000


def kept(world: ProviderNetwork) -> dict[str, int]:
    """Return how many transient feeds each participant keeps."""
    return {name: world.transient(name) for name in world.nodes}


def test_feeds_are_short_and_old_ones_are_deleted() -> None:
    terms = Terms(entries=8, unread=2)
    world = chain(2, terms, between=terms)
    every(world, "customer", 10, 400, "/a")  # fifty feeds of each line
    most: dict[str, int] = {}
    for _ in range(60):
        world.run(0.1)
        for name, count in kept(world).items():
            most[name] = max(most.get(name, 0), count)
    assert all(is_answered(world, f"/a/{number}") for number in range(400))
    written = sum(line.written for node in world.nodes.values() for line in node.links())
    assert written > 4 * 400
    # Of each line: the open feed and those that are not acknowledged yet, in each direction.
    assert max(most.values()) <= 2 * 2 * 3
    for node in world.nodes.values():
        feeds = node._side.peer.replication
        assert len(feeds.wanted) < 20
        assert feeds.exchanges() < 60


def test_only_the_other_side_hears_of_a_transient_feed() -> None:
    """What a peer is told of and does not replicate, it counts."""

    def unwanted(world: ProviderNetwork) -> int:
        sessions = [node.replication.sessions.values() for node in world.nodes.values()]
        return sum(session.unwanted for each in sessions for session in each)

    world = chain(2, Terms(entries=4), others=("other",))
    before = unwanted(world)
    every(world, "customer", 20, 50, "/a")
    world.run(3)
    assert world.nodes["customer"].links()[0].written >= 50
    assert unwanted(world) == before


@pytest.mark.parametrize("by", ["customer", "nfp1"])
def test_nothing_is_left_of_a_contract_that_ended(by: str) -> None:
    world = chain(1)
    every(world, "customer", 10, 100, "/a")
    world.run(3)
    for contract in [*world.nodes["nfp1"].contracts]:
        side = by if by == "nfp1" or contract.customer == identity("customer").ref else "repository"
        world.do(side, lambda node, contract=contract: node.end(contract.id, world.now))
    world.run(2)
    world.ask("customer", "/a/again")
    world.run(5)
    assert world.ends("customer", "/a/again") == [REFUSED]
    assert set(kept(world).values()) == {0}
    for name in ("customer", "nfp1", "repository"):
        node = world.nodes[name]
        assert not node.links()
        assert node.host.forwarder.pit_entries() == 0
        main = {identity(other).ref for other in world.nodes}
        assert set(node._side.peer.replication.wanted) <= main


def test_a_contract_ends_when_its_term_is_over() -> None:
    world = chain(1, Terms(term_s=60))
    world.ask("customer", "/a/1")
    world.run(1)
    assert is_answered(world, "/a/1")
    world.run(60)
    world.ask("customer", "/a/2")
    world.run(1)
    assert world.ends("customer", "/a/2") == [REFUSED]
    assert kept(world)["customer"] == 0
    assert len(world.nodes["nfp1"].links()) == 1  # the repository's


class Fetcher(Consumer):
    """Fetches segments, some at a time, and asks again for what does not come."""

    def __init__(self, prefix: str, segments: int, window: int = 16) -> None:
        super().__init__("fetcher")
        self._uri = prefix
        self._left = list(range(segments))[::-1]
        self._window = window
        self.got: dict[int, bytes] = {}
        self.segments = segments

    def go_on(self, now: int) -> None:
        while self._left and self.pending < self._window:
            self.ask(f"{self._uri}/seg={self._left.pop()}", now, lifetime_ms=1000)

    def ended(self, uri: str, end: End, now: int) -> None:
        super().ended(uri, end, now)
        number = int(uri.rpartition("=")[2])
        if isinstance(end, bytes):
            assert number not in self.got
            self.got[number] = parse_data(end).content
        else:
            self._left.append(number)
        if isinstance(end, bytes) or end == "timeout":
            self.go_on(now)


def fetch(world: ProviderNetwork, segments: int, do: Callable[[], None]) -> Fetcher:
    """Fetch an object, and do something when a part of it is there."""
    fetcher = Fetcher("/a/object", segments)

    def meanwhile() -> None:
        assert 0 < len(fetcher.got) < segments
        do()

    world.do("customer", lambda node: node.attach(fetcher, now=world.now))
    world.do("customer", lambda node: fetcher.go_on(world.now))
    world.network.change(world.now + 150 * MS, meanwhile)
    for _ in range(100):
        world.run(1)
        if len(fetcher.got) == segments:
            break
        world.do("customer", lambda node: fetcher.go_on(world.now))
    return fetcher


def content(name: bytes) -> bytes:
    return answer(name, 5000)


@pytest.mark.parametrize("restarted", [None, "nfp1", "nfp2", "nfp3", "repository"])
def test_an_object_comes_whole_though_a_node_is_killed(restarted: str | None) -> None:
    world = chain(3, producer=Producer(content), between=Terms(entries=16), bw_mbit=20.0)

    def kill() -> None:
        if restarted is not None:
            world.restart(restarted)

    fetcher = fetch(world, 100, kill)
    for number in range(100):
        name = from_uri(f"/a/object/seg={number}")
        assert fetcher.got[number] == name.ljust(5000, b".")


def test_two_restarts_at_once() -> None:
    world = chain(2)
    world.restart("nfp1")
    world.restart("nfp2")
    world.run(10)
    world.ask("customer", "/a/1")
    world.run(2)
    assert is_answered(world, "/a/1")
    epochs = {contract.epoch for contract in world.nodes["nfp1"].contracts if contract.is_accepted}
    assert epochs == {1}


def test_the_customer_starts_anew() -> None:
    world = chain(1)
    world.restart("customer")
    world.run(10)
    world.ask("customer", "/a/1")
    world.run(2)
    assert is_answered(world, "/a/1")
    assert max(kept(world).values()) <= 8
