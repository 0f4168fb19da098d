"""What is published and when."""

import json
from pathlib import Path

import pytest
from simulation import feed_of

from ssb.message import Message
from testbed.errors import UserError
from testbed.scenario import Schedule, Workload
from testbed.workload import messages, publication_times

REAL = Path(__file__).parents[1] / "data" / "ssb-feed-235.jsonl"
MS = 1_000_000


def test_a_real_feed_is_published_whole() -> None:
    assert [m.sequence for m in messages(Workload(feed=str(REAL)), seed=1)] == list(range(1, 236))


def test_a_generated_feed_follows_its_seed() -> None:
    first, again, other = (messages(Workload(items=5), seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == 5


def test_a_wrong_signature_is_refused_with_its_line(tmp_path: Path) -> None:
    lines = REAL.read_text(encoding="utf-8").splitlines()
    entry = json.loads(lines[16])
    entry["value"]["timestamp"] += 1
    lines[16] = json.dumps(entry)
    path = tmp_path / "feed.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(UserError, match=r"feed\.jsonl:17: signature does not verify") as error:
        messages(Workload(feed=str(path)), seed=1)
    assert "\n" not in str(error.value)


def test_a_missing_feed_is_one_line() -> None:
    with pytest.raises(UserError, match="nosuch: No such file or directory; give a feed export's path"):
        messages(Workload(feed="nosuch"), seed=1)


def stamped(timestamp: float) -> Message:
    original = feed_of(1)[0]
    return Message.from_value(json.loads(original.text) | {"timestamp": timestamp})


def test_times_follow_the_timestamps_faster_and_without_long_silences() -> None:
    feed = [stamped(t) for t in (1000, 3000, 3000, 2000, 1e300, 1e300)]
    times = publication_times(feed, Schedule(speed=10.0, idle_limit_ms=500.0), first=7)
    assert [time - 7 for time in times] == [0, 200 * MS, 200 * MS, 200 * MS, 700 * MS, 700 * MS]
