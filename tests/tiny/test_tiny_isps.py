"""Several providers: whom clients reach through them, loops, farewells; and groups."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_cell import SECOND
from tiny_region import Region, texts

from ssb.tiny.isp.messages import (
    NOT_FOUND,
    REJECTED,
    Message,
    Reach,
    SubReceipt,
    SubRelay,
    SubRequest,
    SubRequestIsp,
    SubResponse,
    SubResponseIsp,
    read,
    write,
)
from ssb.tiny.isp.reach import Reachability
from ssb.tiny.isp.terms import Terms

KEY, OTHER, REF, PROOF = bytes(range(32)), bytes(range(32, 64)), bytes(range(20)), bytes(range(64))
LINE = [("i0", "i1"), ("i1", "i2"), ("i2", "i3")]
RING = [*LINE, ("i3", "i0")]
MESH = [(f"i{one}", f"i{other}") for one in range(4) for other in range(one)]


@pytest.mark.parametrize(
    "message",
    [
        SubRequest(KEY, OTHER, PROOF),
        SubRequest(KEY, OTHER, None, (KEY, OTHER)),
        SubRequestIsp(REF, KEY, OTHER, PROOF, (KEY, OTHER, KEY)),
        SubRelay(REF, KEY, OTHER, KEY, PROOF, None),
        SubResponse(REF, True, KEY, PROOF),
        SubResponseIsp(REF, True, KEY, PROOF),
        SubReceipt(REF, 300, PROOF),
        Reach((KEY, OTHER), (KEY,)),
        Reach(None, (KEY, OTHER)),
        Reach((), ()),
    ],
)
def test_commands_that_are_not_in_the_paper(message: Message) -> None:
    assert read(write(message)) == message


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14),
    st.lists(st.tuples(st.integers(0, 13), st.booleans()), max_size=8),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60, deadline=None)
def test_the_shortest_ways_without_loops(links, changes, random) -> None:  # type: ignore[no-untyped-def]
    """Any network of providers, links that go and come, news in any order: then the ways are the shortest.

    The model is a search in breadth.
    """
    keys = [bytes((number,)) * 32 for number in range(8)]
    clients = [bytes((100 + number,)) * 32 for number in range(8)]
    links = sorted({(min(pair), max(pair)) for pair in links if pair[0] != pair[1]})
    tables = [Reachability(key) for key in keys]
    queues: dict[tuple[int, int], list[Reach]] = {}
    up = set(links)

    def contract(one: int, other: int) -> bytes:
        return bytes((min(one, other), max(one, other)))

    def tell(one: int) -> None:
        for pair in up:
            if one in pair:
                other = pair[0] + pair[1] - one
                news = tables[one].news(contract(one, other), keys[other], [clients[one]])
                queues.setdefault((one, other), []).extend(news)

    def settle() -> None:
        for one in range(8):
            tell(one)
        for _ in range(2000):
            waiting = [pair for pair, queue in queues.items() if queue]
            if not waiting:
                return
            one, other = random.choice(waiting)
            message = queues[one, other].pop(0)
            assert tables[other].hear(contract(one, other), keys[one], message) is None
            tell(other)
        raise AssertionError("news without end")

    settle()
    for at, is_up in changes:
        if at < len(links):
            pair = links[at]
            (up.add if is_up else up.discard)(pair)
            if not is_up:
                for one, other in (pair, pair[::-1]):
                    tables[one].forget(contract(one, other))
                    queues.pop((one, other), None)
            if random.random() < 0.5:
                settle()
    settle()
    for start in range(8):
        distance = {start: 0}
        frontier = [start]
        while frontier:
            one = frontier.pop(0)
            for pair in up:
                if one in pair and (other := sum(pair) - one) not in distance:
                    distance[other] = distance[one] + 1
                    frontier.append(other)
        paths = tables[start].paths()
        assert {clients.index(target): len(path) for target, path in paths.items()} == {
            other: steps for other, steps in distance.items() if steps
        }


@pytest.mark.parametrize("peers", [LINE, RING, MESH], ids=["line", "ring", "mesh"])
def test_clients_of_different_providers_exchange_feeds(peers: list[tuple[str, str]]) -> None:
    region = Region({f"c{number}": f"i{number}" for number in range(4)}, peers)
    ref = region.subscribe("c0", "c3")
    region.send("c0", ref, texts("to", 10))
    region.send("c3", ref, texts("fro", 10, 200))
    assert region.receive("c3", ref, 10) == texts("to", 10)
    assert region.receive("c0", ref, 10) == texts("fro", 10, 200)
    on_way = [name for name in ("i0", "i1", "i2", "i3") if region.isp(name).routes]
    assert on_way == (["i0", "i1", "i2", "i3"] if peers == LINE else ["i0", "i3"]), "the shortest way"
    for name in on_way:
        (route,) = region.isp(name).routes.values()
        size = region.nodes[name].store.size([feed for feed in (route.a.feed, route.b.feed) if feed])
        assert size == 0, "what has gone on is not kept"
    region.client("c0").unsubscribe(ref, region.network.now)
    assert region.run(60, lambda: not any(region.isp(name).routes for name in on_way))
    region.run(2)
    assert not region.client("c0").subscriptions
    assert not region.client("c3").subscriptions
    assert not any(party.faults for party in region.parties.values())


def test_a_request_that_comes_back_is_refused_and_leaves_nothing() -> None:
    """As if news were wrong: each provider of a ring believes that the next one knows the way."""
    region = Region({"c0": "i0"}, [("i0", "i1"), ("i1", "i2"), ("i2", "i0")])
    nobody = bytes(range(32))
    for one, other in (("i0", "i1"), ("i1", "i2"), ("i2", "i0")):
        contract = region.isp(one).contract_with(region.key(other))
        assert contract is not None
        path = (region.key(other), nobody)
        region.isp(one).reachability.hear(contract.id, region.key(other), Reach(path, (nobody,)))
    ref = region.ask("c0", "c0")
    region.run(5)
    ref = region.client("c0").subscribe(region.key("i0"), nobody, region.network.now)
    assert region.run(30, lambda: ref not in region.client("c0").subscriptions)
    assert region.detail("c0", "refused") == [NOT_FOUND, REJECTED]
    assert not any(region.isp(name).routes for name in ("i0", "i1", "i2"))
    feeds = {name: len(region.nodes[name].store.feeds) for name in ("i1", "i2")}
    assert feeds == {"i1": 11, "i2": 11}, "root feeds and two contracts of four feeds each"


def test_a_slow_reader_at_another_provider_slows_down_the_sender_alone() -> None:
    terms = Terms(size=4, unread=2, backlog=3, linger=30 * SECOND)
    region = Region({"c0": "i0", "c1": "i1", "c2": "i1"}, [("i0", "i1")], terms)
    slow, quick = region.subscribe("c0", "c1"), region.subscribe("c0", "c2")
    region.send("c0", slow, texts("slow", 40))
    region.run(10)
    for isp in ("i0", "i1"):
        for route in region.isp(isp).routes.values():
            assert max(map(region.isp(isp)._waiting, (route.a, route.b))) <= terms.held
    assert region.client("c0")._backlog(region.client("c0").subscriptions[slow].own) > 4
    region.send("c0", quick, texts("quick", 12))
    assert region.receive("c2", quick, 12, seconds=60) == texts("quick", 12)
    assert region.receive("c1", slow, 40) == texts("slow", 40)


@pytest.mark.parametrize("who", ["the client", "the providers, by the first", "by the second", "by both"])
def test_farewells_with_routes_across_providers_leave_nothing(who: str) -> None:
    terms = Terms(size=4, unread=2, backlog=3, linger=20 * SECOND)
    region = Region({"c0": "i0", "c1": "i1"}, [("i0", "i1")], terms, loss_percent=5, jitter_ms=5)
    ref = region.subscribe("c0", "c1")
    sent = texts("a", 12)
    region.send("c0", ref, sent)
    region.run(0.5)
    now = region.network.now
    if who == "the client":
        region.client("c0").farewell(region.key("i0"), now)
    if who in ("the providers, by the first", "by both"):
        region.isp("i0").farewell(region.key("i1"), now)
    if who in ("by the second", "by both"):
        region.isp("i1").farewell(region.key("i0"), now)
    found = region.receive("c1", ref, len(sent), seconds=60)
    assert found == sent[: len(found)]
    assert who != "the client" or found == sent
    assert region.run(200, lambda: sum(len(one.contracts) for one in region.parties.values()) == 4)
    assert region.run(60, lambda: not any(region.isp(name).routes for name in ("i0", "i1")))
    region.run(5)
    assert not any(region.client(name).subscriptions for name in ("c0", "c1"))
    for name, party in region.parties.items():
        known = {party.root.public_key, *party.followed}
        known |= {feed for one in party.contracts.values() for feed in one.feeds}
        assert set(region.nodes[name].store.feeds) == known, name
        assert not party.evidence()
    if who == "the client":
        assert not region.isp("i1").reachability.paths(), "the client is not reached any more"
    else:
        ref = region.ask("c0", "c1")
        assert region.run(20, lambda: ref not in region.client("c0").subscriptions)
        assert region.detail("c0", "refused")[-1] == NOT_FOUND


def test_two_providers_that_ask_each_other_have_one_contract() -> None:
    region = Region({"c0": "i0", "c1": "i1"}, [("i0", "i1"), ("i1", "i0")][:1])
    region.isp("i0").farewell(region.key("i1"), region.network.now)
    assert region.run(100, lambda: len(region.isp("i0").contracts) == 1 == len(region.isp("i1").contracts))
    region.run(11)
    for one, other in (("i0", "i1"), ("i1", "i0")):
        region.isp(one).onboard(region.key(other), region.network.now)
    assert region.run(60, lambda: region.open("i0") == region.open("i1") == 2)
    region.run(15)
    assert len(region.isp("i0").contracts) == len(region.isp("i1").contracts) == 2
    region.subscribe("c0", "c1")


def test_news_from_a_client_are_not_taken() -> None:
    region = Region({"c0": "i0", "c1": "i0"})
    (contract,) = region.client("c1").contracts.values()
    contract.say(Reach((region.key("c1"),), (bytes(range(32)),)), region.network.now)
    region.run(5)
    assert not region.isp("i0").reachability.paths()
    assert region.isp("i0").faults["a command that a client does not have"] == 1


# Groups


def founded(region: Region, members: list[str]) -> tuple[bytes, dict[str, list[bytes]]]:
    """Found a group; return its id, and the references of each member."""
    first, *others = members
    keys = [region.key(name) for name in others]
    client = region.client(first)
    group = client.found(region.key(region.home[first]), keys, region.network.now)
    for name in others:
        one = region.client(name)
        assert region.run(
            60, lambda one=one: any(sub.state == "invited" for sub in one.subscriptions.values())
        )
        ref = next(sub.ref for sub in one.subscriptions.values() if sub.state == "invited")
        one.answer(ref, region.network.now, accept=True)
    assert region.run(
        60,
        lambda: all(
            group in region.client(name).groups and not region.client(name).groups[group].pending
            for name in members
        ),
    )
    return group, {
        name: [sub.ref for sub in region.client(name).subscriptions.values() if sub.group] for name in members
    }


@pytest.mark.parametrize("isps", [1, 3])
def test_a_group_reads_everything_and_each_writes_once(isps: int) -> None:
    members = [f"c{number}" for number in range(5)]
    peers = [("i0", "i1"), ("i1", "i2")][: isps - 1]
    region = Region({name: f"i{at % isps}" for at, name in enumerate(members)}, peers)
    group, refs = founded(region, members)
    assert all(len(of) == 4 for of in refs.values())
    own = {region.client(name).groups[group].own for name in members}
    assert len(own) == 5
    before = region.nodes["c0"].sent["entry"] + region.nodes["c0"].sent["chunk"]
    for name in members:
        for content in texts(name, 12):
            region.client(name).post(group, content, region.network.now)
    for name in members:
        found = {}
        for ref in refs[name]:
            found[region.client(name).subscriptions[ref].contact] = region.receive(name, ref, 12, 60)
        assert found == {region.key(one): texts(one, 12) for one in members if one != name}
    sent = region.nodes["c0"].sent["entry"] + region.nodes["c0"].sent["chunk"] - before
    assert sent < 2 * 4 * 12, "an entry of four packets goes to the provider once, not to each member"
    for name in members[1:]:
        for ref in list(refs[name]):
            if ref in region.client(name).subscriptions:
                region.client(name).unsubscribe(ref, region.network.now)
    assert region.run(60, lambda: not any(region.client(name).subscriptions for name in members))
    assert not any(region.client(name).groups for name in members)
    for party in region.parties.values():
        known = {feed for one in party.contracts.values() for feed in one.feeds}
        assert set(party.node.store.feeds) == {party.root.public_key, *party.followed, *known}
        assert not party.faults


def test_a_group_goes_on_without_a_member_who_leaves() -> None:
    region = Region(
        dict.fromkeys(["c0", "c1", "c2"], "i0"), terms=Terms(size=4, unread=2, linger=20 * SECOND)
    )
    group, refs = founded(region, ["c0", "c1", "c2"])
    region.client("c2").farewell(region.key("i0"), region.network.now)
    region.run(2)
    for content in texts("a", 40):
        region.client("c0").post(group, content, region.network.now)
    (ref,) = (ref for ref in refs["c0"] if ref in refs["c1"])
    assert region.receive("c1", ref, 40) == texts("a", 40)
    assert region.run(100, lambda: not region.client("c2").contracts)
    assert not region.client("c2").groups
    assert len(region.isp("i0").routes) == 1
    (route,) = region.isp("i0").routes.values()
    assert region.nodes["i0"].store.size([route.a.feed or b"", route.b.feed or b""]) == 0


def test_who_declines_is_not_in_the_group_and_holds_up_nobody() -> None:
    region = Region(dict.fromkeys(["c0", "c1", "c2"], "i0"))
    keys = [region.key("c1"), region.key("c2")]
    group = region.client("c0").found(region.key("i0"), keys, region.network.now)
    region.client("c0").post(group, b"hello", region.network.now)
    for name, accept in (("c2", False), ("c1", True)):
        client = region.client(name)
        assert region.run(30, lambda client=client: bool(client.subscriptions))
        client.answer(next(iter(client.subscriptions)), region.network.now, accept=accept)
    region.run(10)
    for one in list(region.client("c2").subscriptions.values()):
        region.client("c2").answer(one.ref, region.network.now, accept=False)
    (ref,) = (
        one.ref for one in region.client("c1").subscriptions.values() if one.contact == region.key("c0")
    )
    assert region.receive("c1", ref, 1, 20) == [b"hello"]


def test_a_member_who_does_not_answer_can_be_given_up() -> None:
    region = Region(dict.fromkeys(["c0", "c1", "c2"], "i0"))
    keys = [region.key("c1"), region.key("c2")]
    client = region.client("c0")
    group = client.found(region.key("i0"), keys, region.network.now)
    region.run(10)
    (ref,) = region.client("c1").subscriptions
    region.client("c1").answer(ref, region.network.now, accept=True)
    client.post(group, b"hello", region.network.now)
    assert region.receive("c1", ref, 1, 10) == []
    for name in ("c0", "c1"):
        region.client(name).give_up(group, region.key("c2"), region.network.now)
    assert region.receive("c1", ref, 1, 20) == [b"hello"]
    with pytest.raises(ValueError, match="nobody waits"):
        client.give_up(group, region.key("c2"), region.network.now)
    with pytest.raises(ValueError, match="3 to 16 members"):
        client.found(region.key("i0"), keys[:1], region.network.now)
    with pytest.raises(ValueError, match="no such group"):
        client.post(bytes(32), b"", region.network.now)


def test_a_contract_without_data_hears_any_number_of_commands() -> None:
    """Many requests are refused, and no data hop: each side still learns how far the other has read."""
    region = Region({"ann": "isp", "ben": "isp"})
    for _ in range(24):
        asked = [region.ask("ann", "ben") for _ in range(12)]
        for ref in asked:
            assert region.run(60, lambda ref=ref: ref in region.client("ben").subscriptions)
            region.client("ben").answer(ref, region.network.now, accept=False)
        assert region.run(60, lambda: not region.client("ann").subscriptions)
    region.subscribe("ann", "ben")
    assert not region.isp("isp").faults["requests without end"]
