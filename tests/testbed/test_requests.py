"""Objects that are asked for one by one: by `ndn`, `lli` and `ndn-over-ssb`, in virtual time."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from simulation import Result, scenario, simulate

from testbed.errors import UserError
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load

LAYERINGS = ("ndn", "lli", "ndn-over-ssb")
LAYERING = pytest.mark.parametrize("layering", LAYERINGS)
LINKS = [("repo", "n1"), ("n1", "n2"), ("c1", "n1"), ("c2", "n2"), ("other", "n2")]


def fetching(**changes: Any) -> Scenario:
    """Two repositories and two customers at two providers; each customer asks for six of ten objects."""
    link = changes.pop("link", {})
    fetch = changes.pop("fetch", {})
    table = {
        "layerings": LAYERINGS,
        "topology": {"links": [{"a": a, "b": b} for a, b in LINKS], "link": {"delay_ms": 5.0} | link},
        "publishers": ("repo", "other"),
        "subscribers": ("c1", "c2"),
        "workload": {
            "feeds": 10,
            "items": 30,
            "activity_exponent": 0.0,
            "fetch": {"requests": 6, "interval_ms": 200.0, "segment_bytes": 900} | fetch,
        },
        "warmup_ms": 2000,
        "settle_ms": 20_000,
    }
    return scenario(**table | changes)


def check_all(result: Result, nodes: tuple[str, ...] = ("c1", "c2")) -> None:
    """Check that each customer has each object that it asked for, whole, each segment once and in order."""
    for node in nodes:
        for number, feed in enumerate(result.load.feeds):
            asked_for = feed in result.load.follows[node]
            expected = [message.sequence for message in feed.messages] if asked_for else []
            assert result.delivered(node, number) == expected


@LAYERING
def test_everybody_gets_what_he_asks_for(layering: str) -> None:
    check_all(simulate(fetching(), layering))


@LAYERING
def test_links_may_lose(layering: str) -> None:
    link = {"loss_percent": 3.0, "reorder_percent": 2.0, "duplicate_percent": 2.0}
    check_all(simulate(fetching(link=link, settle_ms=60_000), layering))


@LAYERING
@pytest.mark.parametrize("node", ["n2", "other"])
def test_a_node_may_start_anew(layering: str, node: str) -> None:
    check_all(simulate(fetching(events=[{"at_ms": 2600.0, "restart": node}], settle_ms=60_000), layering))


def test_a_customer_may_start_anew() -> None:
    result = simulate(fetching(events=[{"at_ms": 2600.0, "restart": "c1"}], settle_ms=60_000), "ndn-over-ssb")
    check_all(result)


def test_the_same_seed_makes_the_same_run() -> None:
    one, other = (simulate(fetching(), "ndn-over-ssb") for _ in range(2))
    assert one.events == other.events
    assert one.capture == other.capture


def test_nothing_is_asked_for_before_its_time() -> None:
    result = simulate(fetching(), "ndn-over-ssb")
    for node, times in result.load.requests.items():
        joined = {e["feed"]: e["time"] for e in result.events[node] if e["event"] == "joined"}
        assert joined == {key: result.timeline.start + time for key, time in times.items()}
        ends = [e["time"] for e in result.events[node] if e["event"] == "delivered"]
        assert min(ends) >= min(joined.values())


def test_data_of_another_authority_do_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository whose key the anchor has not signed is of no use; everybody else gets his Data."""
    from testbed.layerings.kinds import ndn_over_ssb
    from testbed.layerings.nodes.authority import Authority, producer_of

    def forged(seed: int, node: str) -> Authority:
        if node != "other":
            return producer_of(seed, node)
        return Authority(f"/ssb/producers/{node}", Authority("/ssb", seed="forged"), seed="forged")

    monkeypatch.setattr(ndn_over_ssb, "producer_of", forged)
    result = simulate(fetching(), "ndn-over-ssb")
    for node in ("c1", "c2"):
        for number, feed in enumerate(result.load.feeds):
            if feed in result.load.follows[node]:
                assert bool(result.delivered(node, number)) == (feed.publisher == "repo")
    refused = [node.counters().get("data_refused", 0) for node in result.nodes.values()]
    assert sum(refused) > 0


def test_logs_of_friends_answer_at_once() -> None:
    people = ("ann", "ben", "cleo")
    wanted = fetching(
        topology={"links": [{"a": each, "b": "n1"} for each in people], "link": {"delay_ms": 5.0}},
        publishers=people,
        subscribers=people,
        workload={
            "feeds": 6,
            "items": 12,
            "activity_exponent": 0.0,
            "graph": {"follows": 1, "closure": 0.0, "mutual": 0.0},
            "fetch": {"requests": 4, "interval_ms": 200.0, "segment_bytes": 100},
        },
    )
    answered = {}
    for hops in (0, 1):
        parameters = {"ndn-over-ssb": {"hops": hops}}
        result = simulate(wanted.model_copy(update={"parameters": parameters}), "ndn-over-ssb")
        check_all(result, people)
        answered[hops] = sum(node.counters().get("answered_here", 0) for node in result.nodes.values())
        for node in people:
            held = {feed.key for feed in result.load.replicated[node]} if hops else set()
            for event in result.events[node]:
                if event["event"] == "delivered" and event["feed"] in held:
                    joined = result.timeline.start + result.load.requests[node][event["feed"]]
                    assert event["time"] == joined
    assert answered[0] == 0
    assert answered[1] > 0


# The workload


def test_requests_follow_zipf_and_none_is_made_twice() -> None:
    result = simulate_load(fetching(fetch={"popularity_exponent": 3.0, "requests": 2}))
    for node, times in result.requests.items():
        assert len(times) == 2
        assert [*times.values()] == sorted(times.values())
        assert {feed.key for feed in result.follows[node]} == {*times}
    drawn: Counter[int] = Counter()
    for seed in range(60):
        made = simulate_load(fetching(fetch={"popularity_exponent": 1.5, "requests": 1}, seed=seed))
        numbers = {feed.key: number for number, feed in enumerate(made.feeds)}
        drawn += Counter(numbers[key] for times in made.requests.values() for key in times)
    # By Zipf's law the first of ten gets 0.50 of 120 draws, the second 0.18.
    assert 45 <= drawn[0] <= 78
    assert 10 <= drawn[1] <= 36


def simulate_load(wanted: Scenario) -> Any:
    from testbed.scenario.workload import load as load_workload

    return load_workload(wanted)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('layerings = ["ssb"]\n[workload.fetch]\nrequests = 3\n', "ssb cannot carry objects"),
        ('layerings = ["ndn"]\n', "ndn cannot carry items that come into being"),
        ('layerings = ["ndn"]\n[workload]\nfollows = 1\nfeeds = 2\n[workload.fetch]\n', "choose one"),
        ('layerings = ["ndn-over-ssb"]\n[workload.fetch]\n', "is next to no provider"),
        ('layerings = ["lli"]\n[fork]\npublisher = "s1"\nafter = 2\n[workload.fetch]\n', "do not fork"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    topology = '[topology]\nlinks = [{ a = "pub", b = "s1" }]\n'
    path.write_text(f'title = "x"\n{text}{topology}', encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load(str(path))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["requests", "interval_ms", "segment_bytes"])
def test_numbers_have_bounds(key: str) -> None:
    with pytest.raises(ValidationError):
        fetching(fetch={key: 0})
