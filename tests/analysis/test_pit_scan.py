"""A node's PIT by the window against the same packet by packet."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.packet_schema import ARROW_TYPES
from analysis.packet_schema import COLUMNS as PACKETS
from analysis.pit import model as pit_model
from analysis.pit.entry import Interval, Message
from analysis.pit.feed import FeedEntry
from analysis.pit.model import PitModel
from analysis.pit.windows import window as pit_window
from analysis.pit.windows.scan import PitScan
from analysis.pit.windows.window import COLUMNS
from forwarder.wire.evidence import Evidence
from forwarder.wire.hello import Hello, Standing, make_hello, reference
from forwarder.wire.lp import parse_lp
from forwarder.wire.name import from_uri

TYPES = {column.name: ARROW_TYPES[column.type] for column in PACKETS}
FEEDS = "/f/k1", "/f/k2"


def hello_value(hello):
    return parse_lp(make_hello(hello)).hello


NAMES = ("/a", "/a/b", "/a/b/c", "/a/bc", "/a/sha256digest=00", *(f"/x/{n}" for n in range(4)))
INTERFACES = ("i", "j", "u")
LIFETIMES = (0, 1, 3, 8, 20, 1 << 39, (1 << 63) - 1)


def packet(kind, **fields):
    """Draw a packet; its time is what passes since the one before."""
    usual = dict.fromkeys(Message._fields, st.none()) | {
        "time": st.sampled_from([0, 0, 1, 1, 2, 7]),
        "interface": st.sampled_from(INTERFACES),
        "direction": st.sampled_from(["in", "out", "in", "out", None]),
        "kind": st.just(kind),
        "name": st.sampled_from(NAMES),
        "name_length": st.just(9),
    }
    return st.builds(Message, **(usual | fields))


asked = {
    "nonce": st.sampled_from([None, *range(12)]),
    "lifetime_ns": st.sampled_from(LIFETIMES[:5]),
    "hop_limit": st.sampled_from([None, 9, 9, 0]),
}
interests = packet("interest", **asked)
odd_interests = packet(
    "interest",
    **asked
    | {
        "lifetime_ns": st.sampled_from(LIFETIMES),
        "can_be_prefix": st.booleans(),
        "must_be_fresh": st.booleans(),
        "is_persistent": st.booleans(),
    },
)
data = packet("data")
nacks = packet("nack", **asked)


def of_feed(message, feed, seq, credit):
    name = f"{feed}/seq={seq}" if message.kind != "data" or credit else f"{feed}/32=fork/seq={seq}"
    return message._replace(
        name=name,
        feed=feed if "fork" not in name else None,
        seq=seq if "fork" not in name else None,
        send_credit=credit if message.kind in ("lli", "nack") else None,
    )


evidence = st.sampled_from([None, b"\1\7"])
items_or_proofs = packet("data", evidence=evidence)
of_one_feed = st.builds(
    of_feed,
    st.one_of(packet("lli", **asked), items_or_proofs, items_or_proofs, packet("nack", **asked)),
    st.sampled_from(FEEDS),
    st.integers(1, 6),
    st.integers(0, 5),
)
states = packet(
    "idle",
    name=st.none(),
    name_length=st.none(),
    feed=st.sampled_from([None, *FEEDS]),
    evidence=evidence,
    feed_first=st.sampled_from([None, None, 2, 4]),
)
digests = st.sampled_from([None, b"12345678"])
standings = st.builds(
    lambda feed, is_there, is_fed: Standing(
        reference(from_uri(feed)),
        1 if is_there else None,
        2 if is_there else None,
        Evidence(7, 1) if is_fed else None,
    ),
    st.sampled_from(FEEDS),
    st.booleans(),
    st.booleans(),
)
few = st.lists(standings, max_size=2).map(tuple)
numbers = st.sampled_from([None, 1, 1, 2])
hellos = packet(
    "hello",
    name=st.none(),
    name_length=st.none(),
    hello=st.just(b"\xa0")
    | st.builds(Hello, numbers, numbers, digests, digests, few, few, st.sampled_from([0, 0, 0, 1])).map(
        hello_value
    ),
)
feed_packets = st.one_of(*6 * (of_one_feed,), states, states, hellos)
item_interests = st.builds(
    lambda message, feed, seq: message._replace(name=f"{feed}/seq={seq}", feed=feed, seq=seq),
    interests,
    st.sampled_from(FEEDS),
    st.integers(1, 6),
)
plain = st.one_of(interests, interests, data)
everything = st.one_of(plain, plain, odd_interests, nacks, feed_packets, item_interests, packet("other"))


@st.composite
def traffic(draw, packets):
    """Draw messages in order, and the places where windows end."""
    now, messages = 0, []
    for message in draw(st.lists(packets, max_size=40)):
        now += message.time
        messages.append(message._replace(time=now))
    cuts = sorted(draw(st.lists(st.integers(0, len(messages)), max_size=6)))
    return messages, cuts


def table_of(messages, first=1):
    columns = {name: [getattr(message, name) for message in messages] for name in Message._fields}
    columns["frame"] = list(range(first, first + len(messages)))
    return pa.table({name: pa.array(columns[name], TYPES[name]) for name in COLUMNS})


def scanned(messages, cuts, end, breaks=None):
    """Return intervals, counted, and steps, by the window."""
    scan = PitScan(breaks)
    parts, before = [], 0
    for place in (*cuts, len(messages)):
        parts.append(scan.push(table_of(messages[before:place], before + 1)))
        before = place
    parts.append(scan.finish(end))
    intervals = Counter(Interval(**row) for part in parts for row in part.intervals.to_pylist())
    return intervals, merged(row for part in parts for row in part.steps.to_pylist())


def merged(rows):
    """Return steps by time; they are in order."""
    steps = {}
    rows = list(rows)
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
    for row in rows:
        steps[row["time"]] = [
            a + b for a, b in zip(steps.get(row["time"], [0] * 6), list(row.values())[1:], strict=True)
        ]
    return {time: step for time, step in steps.items() if any(step)}


def followed(messages, end):
    """Return the same, packet by packet."""
    model = PitModel()
    intervals = Counter(interval for message in messages for interval in model.receive(message))
    intervals.update(model.finish(end))
    return intervals, merged(step._asdict() for step in model.take_steps())


@pytest.mark.parametrize("packets", [plain, feed_packets, everything], ids=["plain", "feeds", "everything"])
def test_by_the_window_as_packet_by_packet(packets):
    @settings(max_examples=100, deadline=None)
    @given(traffic(packets), st.sampled_from([None, 0, 5]))
    def check(drawn, later):
        messages, cuts = drawn
        end = None if later is None or not messages else messages[-1].time + later
        intervals, steps = scanned(messages, cuts, end)
        wanted, wanted_steps = followed(messages, end)
        assert intervals == wanted
        assert steps == wanted_steps

    check()


TREE = [f"/t{a}{b}" for a in ("", "/a", "/b") for b in ("", "/v=1", "/v=1/seg=0", "/v=10", "/v=1/seg=1")]
asked_below = {
    "name": st.sampled_from(TREE),
    "nonce": st.sampled_from([None, *range(40)]),
    "lifetime_ns": st.sampled_from([0, 3, 8, 20, 60, 60, 200]),
    "hop_limit": st.sampled_from([None, 9, 9, 9, 0]),
}
prefixes = packet("interest", **asked_below, can_be_prefix=st.just(True), must_be_fresh=st.booleans())
below = packet("data", name=st.sampled_from(TREE))
answered = packet("data", name=st.sampled_from(TREE), direction=st.just("in"))
digests = packet(
    "interest",
    **asked_below | {"name": st.sampled_from([f"{name}/sha256digest=0{n}" for name in TREE for n in (1, 2)])},
    can_be_prefix=st.booleans(),
)
refused = packet("nack", **asked_below, can_be_prefix=st.booleans(), must_be_fresh=st.booleans())
cut_off = packet("interest", **asked_below | {"lifetime_ns": st.none()}, can_be_prefix=st.just(True))
of_tree = st.one_of(prefixes, prefixes, below, answered)
tree = st.one_of(of_tree, of_tree, of_tree, packet("interest", **asked_below), digests)
mixed = st.one_of(tree, tree, tree, refused, cut_off, feed_packets, odd_interests)


@pytest.mark.parametrize("most", [1, 1 << 21], ids=["too many", "few"])
@pytest.mark.parametrize("packets", [of_tree, tree, mixed], ids=["prefixes", "digests too", "all"])
def test_prefixes_by_the_window_as_packet_by_packet(monkeypatch, packets, most):
    # Data that satisfy several entries stand for several rows; if there are too many, the model takes them.
    monkeypatch.setattr(pit_window, "MOST_ROWS", most)

    @settings(max_examples=100, deadline=None)
    @given(traffic(packets), st.sampled_from([None, 0, 5]))
    def check(drawn, later):
        messages, cuts = drawn
        end = None if later is None or not messages else messages[-1].time + later
        assert scanned(messages, cuts, end) == followed(messages, end)

    check()


def prefix(time, way, interface, name, nonce, lifetime=50):
    asks = Message(time, interface, way, "interest", name, 9, can_be_prefix=True, nonce=nonce)
    return asks._replace(lifetime_ns=lifetime)


def relayed(count):
    """Return what a node passes on that is asked with CanBePrefix: some of it again, by another or for
    longer names; a few of the Interests expire."""
    messages = []
    for n in range(count):
        name, then = f"/x/{n}", 10 * n
        messages += [prefix(then, "in", "i", name, n), prefix(then, "out", "u", name, n)]
        if n % 3 == 0:
            messages.append(prefix(then + 1, "in", "j", name, count + n))
        if n % 5 == 0:
            messages.append(prefix(then + 1, "in", "j", f"{name}/v=1", 2 * count + n))
        if n % 7:
            found = f"{name}/v=1/seg=0" if n % 2 else name
            messages.append(Message(then + 2, "u", "in", "data", found, 9))
            messages.append(Message(then + 3, "i", "out", "data", found, 9))
    return messages


def discovered(count):
    """Return what a producer is asked and answers: for the newest version, then for its segments one by one
    by two, who are not answered in turn."""
    messages = []
    for n in range(count):
        then = 100 * n
        messages.append(prefix(then, "in", "i", "/d", n))
        messages += [Message(then + 2 * s, "i", "out", "data", f"/d/v={n}/seg={s}", 9) for s in range(9)]
        for s in range(1, 9):
            name = f"/d/v={n}/seg={s}"
            messages.append(
                Message(
                    then + 2 * s - 1, "i", "in", "interest", name, 9, nonce=count + 9 * n + s, lifetime_ns=50
                )
            )
        messages.append(prefix(then + 40, "in", "i", "/d", 20 * count + n))
        messages.append(Message(then + 41, "j", "out", "data", f"/d/v={n}/seg=7", 9))
        messages.append(Message(then + 42, "i", "out", "data", f"/d/v={n}/seg=0", 9))
        messages.append(Message(then + 43, "j", "out", "data", f"/d/v={n}/seg=8", 9))
    return sorted(messages, key=lambda message: message.time)


@pytest.mark.parametrize("history", [relayed, discovered])
def test_prefixes_are_not_followed_packet_by_packet(monkeypatch, history):
    messages = history(60)
    wanted = followed(messages, None)
    monkeypatch.setattr(PitModel, "receive", None)
    # Its last entries are the model's to end.
    done = messages[-1].time
    scan = PitScan()
    parts = [scan.push(table_of(messages)), scan.push(table_of(messages[-1:], len(messages) + 1))]
    ended = Counter(Interval(**row) for part in parts for row in part.intervals.to_pylist())
    assert ended == Counter({each: n for each, n in wanted[0].items() if each.closed < done})


@settings(max_examples=100, deadline=None)
@given(
    traffic(everything),
    st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from(INTERFACES), st.sampled_from(["restart", "link-down"])),
        max_size=3,
    ),
)
def test_breaks_come_before_packets_of_their_time(drawn, broken):
    messages, cuts = drawn
    end = messages[-1].time if messages else 0
    broken = [row for row in broken if row[0] <= end]
    breaks = pa.table(
        {
            "time": pa.array([row[0] for row in broken], pa.int64()),
            "interface": pa.array([row[1] for row in broken], pa.string()),
            "kind": pa.array([row[2] for row in broken], pa.string()),
        }
    )
    told = [Message(*row[:2], "", row[2], "", 0) for row in sorted(broken, key=lambda row: row[0])]
    every = sorted([*told, *messages], key=lambda message: message.time)
    assert scanned(messages, cuts, end, breaks) == followed(every, end)


@st.composite
def pushed(draw):
    """Draw two feeds whose items mostly come one after the other, as they do under LLIs."""
    now, messages, nonce = 0, [], 0
    heads = dict.fromkeys(FEEDS, 1)
    deeds = st.sampled_from(["in", "in", "out", "run", "run", "run", "skip", "again", "asked"])
    for deed in draw(st.lists(deeds, max_size=25)):
        feed = draw(st.sampled_from(FEEDS))
        head = heads[feed]
        now += draw(st.sampled_from([0, 1, 5]))
        if deed in ("in", "out"):
            nonce += 1
            first = max(1, head + draw(st.sampled_from([0, 0, 0, -1, 1])))
            interface = draw(st.sampled_from("ij")) if deed == "in" else "u"
            lli = Message(now, interface, deed, "lli", f"{feed}/seq={first}", 9, nonce=nonce)
            lifetime = draw(st.sampled_from([3, 20, 200]))
            credit = draw(st.integers(1, 30))
            messages.append(
                lli._replace(lifetime_ns=lifetime, send_credit=credit, hop_limit=9, feed=feed, seq=first)
            )
        elif deed == "run":
            ways = draw(st.sampled_from([("u",), ("u", "i"), ("u", "i", "j"), ("i", "j")]))
            for seq in range(head, head + draw(st.integers(1, 12))):
                now += draw(st.sampled_from([0, 0, 1]))
                for interface in ways:
                    way = "in" if interface == "u" else "out"
                    item = Message(now, interface, way, "data", f"{feed}/seq={seq}", 9, feed=feed, seq=seq)
                    messages.append(item)
                heads[feed] = seq + 1
        elif deed == "asked":
            name = f"{feed}/seq={head}"
            wanted = Message(now, "j", "in", "interest", name, 9, nonce=nonce, lifetime_ns=9, feed=feed)
            messages.append(wanted._replace(seq=head))
        else:
            heads[feed] = max(1, head + (1 if deed == "skip" else -2))
    cuts = sorted(draw(st.lists(st.integers(0, len(messages)), max_size=3)))
    return messages, cuts


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pushed())
def test_items_that_follow_each_other_go_together(monkeypatch, drawn):
    monkeypatch.setattr(pit_model, "_MANY", 2)
    messages, cuts = drawn
    assert scanned(messages, cuts, None) == followed(messages, None)


def test_runs_of_items_are_not_looked_at_one_by_one(monkeypatch):
    granted = Message(0, "i", "in", "lli", "/f/k1/seq=1", 9, nonce=1, lifetime_ns=10**6, send_credit=99)
    granted = granted._replace(feed="/f/k1", seq=1)
    items = [Message(n, "i", "out", "data", f"/f/k1/seq={n}", 9, feed="/f/k1", seq=n) for n in range(1, 60)]
    wanted = followed([granted, *items], None)
    monkeypatch.setattr(pit_model, "_MANY", 1)
    monkeypatch.setattr(FeedEntry, "send_item", None)
    assert scanned([granted, *items[:-1]], [], None)[1][58] == [0, 0, 0, -1, 0, 0]
    monkeypatch.undo()
    assert scanned([granted, *items], [20], None) == wanted


def test_what_is_held_does_not_grow_with_the_packets():
    scan, most = PitScan(), []
    for window in range(30):
        begin = window * 1000
        messages = []
        for n in range(begin, begin + 1000, 2):
            asks = Message(n, "i", "in", "interest", f"/n/{n}", 9, nonce=n, lifetime_ns=100)
            messages.append(asks)
            if n % 10:
                messages.append(Message(n + 1, "u", "in", "data", f"/n/{n}", 9))
        scan.push(table_of(messages, begin))
        most.append(sum(len(rows) for rows in (scan._carried, scan._held) if rows is not None))
    assert max(most[2:]) <= max(most[:2]) <= 60
