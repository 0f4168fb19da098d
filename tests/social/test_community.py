"""Which feeds are carried for users, against graphs that are made anew; and what logs are bounded by."""

from collections import deque
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from forwarder.wire.packet import parse_data
from ssb.generate import generate_feed
from ssb.graph import Graph
from ssb.keys import Identity
from ssb.message import Message
from ssb_over_ndn.naming import log_name, message_packet
from ssb_over_ndn.social.community import Community
from ssb_over_ndn.social.replicas import Replicas

PEOPLE = [Identity.from_seed(bytes([number]) * 32) for number in range(5)]
SAYS = st.sampled_from([{"following": True}, {"following": True}, {"blocking": True}, {"following": False}])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("attach"), st.integers(0, 4), st.integers(0, 2)),
        st.tuples(st.just("detach"), st.integers(0, 4)),
        st.tuples(st.just("say"), st.integers(0, 4), st.integers(0, 4), SAYS),
        st.tuples(st.just("look")),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_the_carried_feeds_are_those_on_a_graph_of_a_user(steps: list[tuple]) -> None:
    community = Community(most_feeds=100)
    hops: dict[str, int] = {}
    logs: dict[str, list[Message]] = {person.ref: [] for person in PEOPLE}
    known: dict[str, int] = dict.fromkeys(logs, 0)  # what was read of logs while they were carried
    carried: set[str] = set()

    def look() -> None:
        nonlocal carried
        while True:  # a keeper reads the logs that have come to be carried, which may lead to others
            changes = community.take_changes()
            carried = (carried | changes.added) - changes.removed
            known.update(dict.fromkeys(changes.removed, 0))
            unread = [message for feed in carried for message in logs[feed][known[feed] :]]
            for message in unread:
                community.add(message)
            known.update({feed: len(logs[feed]) for feed in carried})
            if not unread and not changes.added and not changes.removed:
                return

    for step in [*steps, ("look",)]:
        match step:
            case ("attach", number, depth):
                hops.setdefault(PEOPLE[number].ref, depth)
                community.attach(PEOPLE[number].ref, depth)
            case ("detach", number):
                hops.pop(PEOPLE[number].ref, None)
                community.detach(PEOPLE[number].ref)
            case ("say", number, about, says):
                log = logs[PEOPLE[number].ref]
                content = {"type": "contact", "contact": PEOPLE[about].ref, **says}
                log.append(Message.create(PEOPLE[number], log[-1] if log else None, content, len(log)))
            case _:
                look()
    expected: set[str] = set()
    for user, depth in hops.items():
        graph = Graph(user, depth)
        for feed in carried:
            for message in logs[feed]:
                graph.add(message)
        expected |= graph.replicated()
    assert carried == expected
    assert community.statements <= sum(len(logs[feed]) for feed in carried)
    assert all(community.carries(feed) == (feed in carried) for feed in logs)


def test_more_feeds_than_there_is_room_for_wait() -> None:
    community = Community(most_feeds=2)
    for person in PEOPLE[:4]:
        community.attach(person.ref, 0)
    first = community.take_changes().added
    assert len(first) == 2
    assert community.counters["feeds"] == 2
    for person in sorted(first):
        community.detach(person)
    changes = community.take_changes()
    assert changes.removed == first
    assert changes.added == {person.ref for person in PEOPLE[:4]} - first


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), max_size=60), st.integers(800, 6000))
def test_logs_stay_within_their_bytes_and_the_newest_items_stay(appends: list[tuple], most: int) -> None:
    replicas = Replicas(most)
    model: dict[bytes, deque[bytes]] = {}
    tips: dict[bytes, int] = {}
    for person, drop in appends:
        messages = FEEDS[person]
        feed = log_name(messages[0].author)
        if drop == 0:
            replicas.drop(feed)
            model.pop(feed, None)
            tips.pop(feed, None)
        elif tips.get(feed, 0) < len(messages):
            data = parse_data(message_packet(messages[tips.get(feed, 0)]))
            replicas.append(feed, data)
            tips[feed] = tips.get(feed, 0) + 1
            model.setdefault(feed, deque()).append(data.wire)
            while (total := sum(map(sum, (map(len, log) for log in model.values())))) > most:
                largest = max(model, key=lambda each: sum(map(len, model[each])))
                model[largest].popleft()
            assert replicas.bytes == total
        for known, log in model.items():
            assert replicas.tip(known) == tips[known]
            kept = [replicas.get(known, seq) for seq in range(1, tips[known] + 1)]
            assert [data.wire for data in kept if data is not None] == [*log]
            assert replicas.get(known, tips[known] + 1) is None


FEEDS = [generate_feed(Random(number), 8, person) for number, person in enumerate(PEOPLE[:3])]
