"""Several providers: whom clients reach through them, loops, farewells; and groups."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_cell import details, provider_cell, texts

from base.units import SECOND
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
from ssb.tiny.isp.provider.reach import Reachability
from ssb.tiny.isp.terms import Terms
from testbed.bench.tiny.provider_network import ProviderNetwork
from testbed.layerings.tiny.hostile_client import fork

KEY, OTHER, REF, PROOF = bytes(range(32)), bytes(range(32, 64)), bytes(range(20)), bytes(range(64))
TERMS = Terms(size=8, linger=30 * SECOND)
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
                news = tables[one].updates(contract(one, other), keys[other], [clients[one]])
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
            assert tables[other].receive(contract(one, other), keys[one], message) is None
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
    network = provider_cell({f"c{number}": f"i{number}" for number in range(4)}, TERMS, peers=peers)
    ref = network.subscribe("c0", "c3")
    network.send("c0", ref, texts("to", 10))
    network.send("c3", ref, texts("fro", 10, 200))
    assert network.receive("c3", ref, 10) == texts("to", 10)
    assert network.receive("c0", ref, 10) == texts("fro", 10, 200)
    on_way = [name for name in ("i0", "i1", "i2", "i3") if network.providers[name].routes]
    assert on_way == (["i0", "i1", "i2", "i3"] if peers == LINE else ["i0", "i3"]), "the shortest way"
    for name in on_way:
        (route,) = network.providers[name].routes.values()
        size = network.nodes[name].store.size([feed for feed in (route.a.feed, route.b.feed) if feed])
        assert size == 0, "what has gone on is not kept"
    network.clients["c0"].unsubscribe(ref, network.now)
    assert network.run(60, lambda: not any(network.providers[name].routes for name in on_way))
    network.run(2)
    assert not network.clients["c0"].subscriptions
    assert not network.clients["c3"].subscriptions
    assert not any(party.faults for party in network.parties.values())


def test_a_request_that_comes_back_is_refused_and_leaves_nothing() -> None:
    """As if news were wrong: each provider of a ring believes that the next one knows the way."""
    network = provider_cell({"c0": "i0"}, TERMS, peers=[("i0", "i1"), ("i1", "i2"), ("i2", "i0")])
    nobody = bytes(range(32))
    for one, other in (("i0", "i1"), ("i1", "i2"), ("i2", "i0")):
        contract = network.providers[one].contracts.current(network.key(other))
        assert contract is not None
        path = (network.key(other), nobody)
        network.providers[one].reachability.receive(contract.id, network.key(other), Reach(path, (nobody,)))
    ref = network.request("c0", "c0")
    network.run(5)
    ref = network.clients["c0"].subscribe(network.key("i0"), nobody, network.now)
    assert network.run(30, lambda: ref not in network.clients["c0"].subscriptions)
    assert details(network, "c0", "refused") == [NOT_FOUND, REJECTED]
    assert not any(network.providers[name].routes for name in ("i0", "i1", "i2"))
    feeds = {name: len(network.nodes[name].store.feeds) for name in ("i1", "i2")}
    assert feeds == {"i1": 11, "i2": 11}, "root feeds and two contracts of four feeds each"


def test_a_slow_reader_at_another_provider_slows_down_the_sender_alone() -> None:
    terms = Terms(size=4, unread=2, backlog=3, linger=30 * SECOND)
    network = provider_cell({"c0": "i0", "c1": "i1", "c2": "i1"}, terms, peers=[("i0", "i1")])
    slow, quick = network.subscribe("c0", "c1"), network.subscribe("c0", "c2")
    network.send("c0", slow, texts("slow", 40))
    network.run(10)
    for isp in ("i0", "i1"):
        for route in network.providers[isp].routes.values():
            assert max(map(network.providers[isp]._waiting, (route.a, route.b))) <= terms.held
    assert network.clients["c0"]._backlog(network.clients["c0"].subscriptions[slow].own) > 4
    network.send("c0", quick, texts("quick", 12))
    assert network.receive("c2", quick, 12, seconds=60) == texts("quick", 12)
    assert network.receive("c1", slow, 40) == texts("slow", 40)


@pytest.mark.parametrize("who", ["the client", "the providers, by the first", "by the second", "by both"])
def test_farewells_with_routes_across_providers_leave_nothing(who: str) -> None:
    terms = Terms(size=4, unread=2, backlog=3, linger=20 * SECOND)
    network = provider_cell(
        {"c0": "i0", "c1": "i1"}, terms, peers=[("i0", "i1")], loss_percent=5, jitter_ms=5
    )
    ref = network.subscribe("c0", "c1")
    sent = texts("a", 12)
    network.send("c0", ref, sent)
    network.run(0.5)
    now = network.now
    if who == "the client":
        network.clients["c0"].farewell(network.key("i0"), now)
    if who in ("the providers, by the first", "by both"):
        network.providers["i0"].farewell(network.key("i1"), now)
    if who in ("by the second", "by both"):
        network.providers["i1"].farewell(network.key("i0"), now)
    found = network.receive("c1", ref, len(sent), seconds=60)
    assert found == sent[: len(found)]
    assert who != "the client" or found == sent
    assert network.run(200, lambda: sum(len(one.contracts) for one in network.parties.values()) == 4)
    assert network.run(60, lambda: not any(network.providers[name].routes for name in ("i0", "i1")))
    network.run(5)
    assert not any(network.clients[name].subscriptions for name in ("c0", "c1"))
    for name, party in network.parties.items():
        known = {party.root.public_key, *party.followed}
        known |= {feed for one in party.contracts.values() for feed in one.feeds}
        assert set(network.nodes[name].store.feeds) == known, name
        assert not party.accusations.evidence()
    if who == "the client":
        assert not network.providers["i1"].reachability.paths(), "the client is not reached any more"
    else:
        ref = network.request("c0", "c1")
        assert network.run(20, lambda: ref not in network.clients["c0"].subscriptions)
        assert details(network, "c0", "refused")[-1] == NOT_FOUND


def opened(network: ProviderNetwork, name: str) -> int:
    return sum(one.facts.state == "open" for one in network.parties[name].contracts.values())


def test_two_providers_that_ask_each_other_have_one_contract() -> None:
    network = provider_cell({"c0": "i0", "c1": "i1"}, TERMS, peers=[("i0", "i1")])
    network.providers["i0"].farewell(network.key("i1"), network.now)
    assert network.run(
        100, lambda: len(network.providers["i0"].contracts) == 1 == len(network.providers["i1"].contracts)
    )
    network.run(11)
    for one, other in (("i0", "i1"), ("i1", "i0")):
        network.providers[one].onboard(network.key(other), network.now)
    assert network.run(60, lambda: opened(network, "i0") == opened(network, "i1") == 2)
    network.run(15)
    assert len(network.providers["i0"].contracts) == len(network.providers["i1"].contracts) == 2
    network.subscribe("c0", "c1")


def test_news_from_a_client_are_not_taken() -> None:
    network = provider_cell({"c0": "i0", "c1": "i0"}, TERMS)
    (contract,) = network.clients["c1"].contracts.values()
    contract.send_command(Reach((network.key("c1"),), (bytes(range(32)),)), network.now)
    network.run(5)
    assert not network.providers["i0"].reachability.paths()
    assert network.providers["i0"].faults["a command that a client does not have"] == 1


# Groups


def founded(network: ProviderNetwork, members: list[str]) -> tuple[bytes, dict[str, list[bytes]]]:
    """Found a group; return its id, and the references of each member."""
    first, *others = members
    keys = [network.key(name) for name in others]
    client = network.clients[first]
    group = client.found(network.key(network.provider_of[first]), keys, network.now)
    for name in others:
        one = network.clients[name]
        assert network.run(
            60, lambda one=one: any(sub.state == "invited" for sub in one.subscriptions.values())
        )
        ref = next(sub.ref for sub in one.subscriptions.values() if sub.state == "invited")
        one.answer(ref, network.now, accept=True)
    assert network.run(
        60,
        lambda: all(
            group in network.clients[name].groups and not network.clients[name].groups[group].pending
            for name in members
        ),
    )
    return group, {
        name: [sub.ref for sub in network.clients[name].subscriptions.values() if sub.group]
        for name in members
    }


@pytest.mark.parametrize("isps", [1, 3])
def test_a_group_reads_everything_and_each_writes_once(isps: int) -> None:
    members = [f"c{number}" for number in range(5)]
    peers = [("i0", "i1"), ("i1", "i2")][: isps - 1]
    network = provider_cell({name: f"i{at % isps}" for at, name in enumerate(members)}, TERMS, peers=peers)
    group, refs = founded(network, members)
    assert all(len(of) == 4 for of in refs.values())
    own = {network.clients[name].groups[group].own for name in members}
    assert len(own) == 5
    before = network.nodes["c0"].sent["entry"] + network.nodes["c0"].sent["chunk"]
    for name in members:
        for content in texts(name, 12):
            network.clients[name].post(group, content, network.now)
    for name in members:
        found = {}
        for ref in refs[name]:
            found[network.clients[name].subscriptions[ref].contact] = network.receive(name, ref, 12, 60)
        assert found == {network.key(one): texts(one, 12) for one in members if one != name}
    sent = network.nodes["c0"].sent["entry"] + network.nodes["c0"].sent["chunk"] - before
    assert sent < 2 * 4 * 12, "an entry of four packets goes to the provider once, not to each member"
    for name in members[1:]:
        for ref in list(refs[name]):
            if ref in network.clients[name].subscriptions:
                network.clients[name].unsubscribe(ref, network.now)
    assert network.run(60, lambda: not any(network.clients[name].subscriptions for name in members))
    assert not any(network.clients[name].groups for name in members)
    for party in network.parties.values():
        known = {feed for one in party.contracts.values() for feed in one.feeds}
        assert set(party.node.store.feeds) == {party.root.public_key, *party.followed, *known}
        assert not party.faults


def test_a_group_goes_on_without_a_member_who_leaves() -> None:
    network = provider_cell(
        dict.fromkeys(["c0", "c1", "c2"], "i0"), terms=Terms(size=4, unread=2, linger=20 * SECOND)
    )
    group, refs = founded(network, ["c0", "c1", "c2"])
    network.clients["c2"].farewell(network.key("i0"), network.now)
    network.run(2)
    for content in texts("a", 40):
        network.clients["c0"].post(group, content, network.now)
    (ref,) = (ref for ref in refs["c0"] if ref in refs["c1"])
    assert network.receive("c1", ref, 40) == texts("a", 40)
    assert network.run(100, lambda: not network.clients["c2"].contracts)
    assert not network.clients["c2"].groups
    assert len(network.providers["i0"].routes) == 1
    (route,) = network.providers["i0"].routes.values()
    assert network.nodes["i0"].store.size([route.a.feed or b"", route.b.feed or b""]) == 0


def test_a_group_goes_on_without_a_member_whose_feed_is_forked() -> None:
    """Its confirmations are worth nothing any more, so whoever waits for them waits for ever."""
    network = provider_cell(dict.fromkeys(["c0", "c1", "c2"], "i0"), terms=Terms(size=4, unread=2))
    group, refs = founded(network, ["c0", "c1", "c2"])
    (contract,) = network.clients["c2"].contracts.values()
    fork(network.nodes["c2"], contract.facts.own_control, network.now)
    network.run(20)
    assert network.parties["i0"].accusations.evidence()
    for content in texts("a", 40):
        network.clients["c0"].post(group, content, network.now)
    (ref,) = (ref for ref in refs["c0"] if ref in refs["c1"])
    assert network.receive("c1", ref, 40) == texts("a", 40)
    assert not any(one.contact == network.key("c2") for one in network.clients["c0"].subscriptions.values())
    asked = network.clients["c1"].subscribe(network.key("i0"), network.key("c2"), network.now)
    assert network.run(30, lambda: asked not in network.clients["c1"].subscriptions), "it is not to be found"


def test_who_declines_is_not_in_the_group_and_holds_up_nobody() -> None:
    network = provider_cell(dict.fromkeys(["c0", "c1", "c2"], "i0"), TERMS)
    keys = [network.key("c1"), network.key("c2")]
    group = network.clients["c0"].found(network.key("i0"), keys, network.now)
    network.clients["c0"].post(group, b"hello", network.now)
    for name, accept in (("c2", False), ("c1", True)):
        client = network.clients[name]
        assert network.run(30, lambda client=client: bool(client.subscriptions))
        client.answer(next(iter(client.subscriptions)), network.now, accept=accept)
    network.run(10)
    for one in list(network.clients["c2"].subscriptions.values()):
        network.clients["c2"].answer(one.ref, network.now, accept=False)
    (ref,) = (
        one.ref for one in network.clients["c1"].subscriptions.values() if one.contact == network.key("c0")
    )
    assert network.receive("c1", ref, 1, 20) == [b"hello"]


def test_a_member_who_does_not_answer_can_be_given_up() -> None:
    network = provider_cell(dict.fromkeys(["c0", "c1", "c2"], "i0"), TERMS)
    keys = [network.key("c1"), network.key("c2")]
    client = network.clients["c0"]
    group = client.found(network.key("i0"), keys, network.now)
    network.run(10)
    (ref,) = network.clients["c1"].subscriptions
    network.clients["c1"].answer(ref, network.now, accept=True)
    client.post(group, b"hello", network.now)
    assert network.receive("c1", ref, 1, 10) == []
    for name in ("c0", "c1"):
        network.clients[name].give_up(group, network.key("c2"), network.now)
    assert network.receive("c1", ref, 1, 20) == [b"hello"]
    with pytest.raises(ValueError, match="nobody waits"):
        client.give_up(group, network.key("c2"), network.now)
    with pytest.raises(ValueError, match="3 to 16 members"):
        client.found(network.key("i0"), keys[:1], network.now)
    with pytest.raises(ValueError, match="no such group"):
        client.post(bytes(32), b"", network.now)


def test_a_contract_without_data_hears_any_number_of_commands() -> None:
    """Many requests are refused, and no data hop: each side still learns how far the other has read."""
    network = provider_cell({"ann": "isp", "ben": "isp"}, TERMS)
    for _ in range(24):
        asked = [network.request("ann", "ben") for _ in range(12)]
        for ref in asked:
            assert network.run(60, lambda ref=ref: ref in network.clients["ben"].subscriptions)
            network.clients["ben"].answer(ref, network.now, accept=False)
        assert network.run(60, lambda: not network.clients["ann"].subscriptions)
    network.subscribe("ann", "ben")
    assert not network.providers["isp"].faults["requests without end"]
