"""State computed from logs: the directory and gatherings, whose state no order of arrival changes."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssb.applications.about import Directory, linked_blob
from ssb.applications.gatherings import Gathering, Gatherings
from ssb.graph import Graph
from ssb.keys import Identity, blob_ref
from ssb.message import Message
from ssb.store.feeds import read_log
from ssb.store.memory import MemoryFeeds

ANN, BEN, CAT, DAN = (Identity.from_seed(bytes([number]) * 32) for number in range(4))
PEOPLE = [ANN, BEN, CAT, DAN]
BLOB, OTHER_BLOB = blob_ref(bytes(32)), blob_ref(bytes(31) + b"1")


class Logs:
    """Logs that people write, each with a clock of its own."""

    def __init__(self):
        self.logs = {person.ref: [] for person in PEOPLE}
        self.now = 1000

    def write(self, person, content, timestamp=None):
        self.now += 1
        log = self.logs[person.ref]
        previous = log[-1] if log else None
        message = Message.create(person, previous, content, self.now if timestamp is None else timestamp)
        log.append(message)
        return message

    def about(self, person, about, **attributes):
        about = about.ref if isinstance(about, Identity) else about
        return self.write(person, {"type": "about", "about": about, **attributes})

    def read(self, application):
        for log in self.logs.values():
            for message in log:
                application.add(message)
        return application


@pytest.fixture
def logs():
    return Logs()


def names(logs, hops):
    directory = logs.read(Directory())
    return [directory.name(person.ref, ANN.ref, hops) for person in PEOPLE]


def test_latest_assignment_of_each_author(logs):
    logs.about(BEN, BEN, name="Benn", image=BLOB)
    logs.about(BEN, BEN, name="Ben", description="a friend")
    logs.about(CAT, BEN, name="Benjamin")
    directory = logs.read(Directory())
    assert directory.given(BEN.ref, "name") == {BEN.ref: "Ben", CAT.ref: "Benjamin"}
    assert directory.given(BEN.ref, "image") == {BEN.ref: BLOB}
    assert directory.given(BEN.ref, "colour") == directory.given(DAN.ref, "name") == {}
    for message in reversed(logs.logs[BEN.ref]):
        directory.add(message)
    assert directory.given(BEN.ref, "name")[BEN.ref] == "Ben"
    logs.about(CAT, BEN, name=None)  # taken back
    assert logs.read(directory).given(BEN.ref, "name") == {BEN.ref: "Ben"}


def test_an_older_time_does_not_make_it_older(logs):
    """A log is ordered by itself, whatever times its author claims."""
    logs.write(BEN, {"type": "about", "about": BEN.ref, "name": "first"}, 2000)
    logs.write(BEN, {"type": "about", "about": BEN.ref, "name": "second"}, 1000)
    assert names(logs, {})[1] == "second"


def test_whose_choice_is_shown(logs):
    hops = {ANN.ref: 0, BEN.ref: 1, CAT.ref: 1, DAN.ref: 2}
    someone = Identity.from_seed(b"x" * 32)
    logs.about(DAN, someone, name="by a friend of friends")
    directory = logs.read(Directory())
    assert directory.name(someone.ref, ANN.ref, hops) == "by a friend of friends"
    assert directory.name(someone.ref, ANN.ref, {ANN.ref: 0}) is None  # a stranger's word
    logs.about(CAT, someone, name="by Cat")
    logs.about(BEN, someone, name="by Ben")
    directory = logs.read(Directory())
    assert directory.name(someone.ref, ANN.ref, hops) == "by Ben"  # of equally many, the first by text
    logs.about(BEN, someone, name="z")
    logs.about(CAT, someone, name="z")
    assert logs.read(directory).name(someone.ref, ANN.ref, hops) == "z"
    logs.about(DAN, DAN, name="oneself")
    logs.about(CAT, DAN, name="by Cat")
    assert names(logs, hops)[3] == names(logs, {})[3] == "oneself"
    logs.about(ANN, DAN, name="as I call him")
    assert names(logs, {})[3] == "as I call him"
    # Another reader sees it otherwise.
    assert logs.read(Directory()).name(DAN.ref, BEN.ref, {}) == "oneself"


def test_images_and_texts(logs):
    logs.about(BEN, BEN, image={"link": BLOB, "size": 3, "type": "image/png"}, description="a friend")
    logs.about(CAT, CAT, image=OTHER_BLOB, name=7, description=["x"])
    directory = logs.read(Directory())
    assert directory.image(BEN.ref, ANN.ref, {}) == BLOB
    assert directory.description(BEN.ref, ANN.ref, {}) == "a friend"
    assert directory.image(CAT.ref, ANN.ref, {}) == OTHER_BLOB
    assert directory.name(CAT.ref, ANN.ref, {}) is directory.description(CAT.ref, ANN.ref, {}) is None
    for value in (None, 7, [], {}, {"link": 7}, "&x", BEN.ref, {"link": {"link": BLOB}}):
        assert linked_blob(value) is None


@pytest.mark.parametrize(
    "content",
    [
        {"type": "about"},
        {"type": "about", "about": "@nobody", "name": "x"},
        {"type": "about", "about": None, "name": "x"},
        {"type": "about", "about": {"link": BEN.ref}, "name": "x"},
        {"type": "post", "about": BEN.ref, "name": "x"},
        "aGVsbG8=.box",
    ],
)
def test_what_says_nothing(logs, content):
    logs.write(BEN, content)
    for application in (Directory(), Gatherings()):
        logs.read(application)
    assert logs.read(Directory()).given(BEN.ref, "name") == {}
    assert logs.read(Gatherings()).gatherings() == []


def test_a_gathering(logs):
    picnic = logs.write(BEN, {"type": "gathering"})
    gatherings = logs.read(Gatherings())
    assert gatherings.gatherings() == [picnic.id]
    assert gatherings.get(picnic.id) == Gathering(picnic.id, BEN.ref)
    logs.about(BEN, picnic.id, title="Picnic", startDateTime={"epoch": 1_600_000_000_000, "tz": "UTC"})
    logs.about(CAT, picnic.id, location="the lake", image={"link": BLOB}, description="Bring food")
    logs.about(DAN, picnic.id, location="the island")  # anyone may
    for person in (BEN, CAT, DAN):
        logs.about(person, picnic.id, attendee={"link": person.ref})
    logs.about(DAN, picnic.id, attendee={"link": DAN.ref, "remove": True})
    logs.about(CAT, picnic.id, attendee={"link": ANN.ref})
    assert logs.read(gatherings).get(picnic.id) == Gathering(
        picnic.id,
        BEN.ref,
        title="Picnic",
        description="Bring food",
        location="the island",
        start=1_600_000_000_000,
        image=BLOB,
        attendees=frozenset({ANN.ref, BEN.ref, CAT.ref}),
    )


def test_the_most_recent_claim_holds(logs):
    picnic = logs.write(BEN, {"type": "gathering"})
    for person, title, timestamp in ((BEN, "b", 30), (CAT, "c", 20), (DAN, "d", 10)):
        logs.write(person, {"type": "about", "about": picnic.id, "title": title}, timestamp)
    assert logs.read(Gatherings()).get(picnic.id).title == "b"
    logs.write(CAT, {"type": "about", "about": picnic.id, "title": "C"}, 30)
    last = max(BEN, CAT, key=lambda person: person.ref)
    assert logs.read(Gatherings()).get(picnic.id).title == ("b" if last is BEN else "C")


def test_nonsense_about_a_gathering(logs):
    picnic = logs.write(BEN, {"type": "gathering"})
    logs.about(CAT, picnic.id, title=7, location=None, startDateTime="tomorrow", image="&", attendee=[])
    logs.about(CAT, picnic.id, startDateTime={"epoch": True}, attendee={"link": "@x"})
    logs.about(CAT, picnic.id, attendee={"remove": True})
    assert logs.read(Gatherings()).get(picnic.id) == Gathering(picnic.id, BEN.ref)
    assert logs.read(Gatherings()).get(logs.about(CAT, CAT, name="x").id) is None


# Any interleaving

ACTIONS = st.tuples(
    st.sampled_from(PEOPLE[:3]),
    st.sampled_from(["gathering", "name", "name", "title", "location", "attend", "leave"]),
    st.integers(0, 2),
    st.integers(0, 2),
)


def write_down(actions):
    logs, created = Logs(), []
    for person, action, target, clock in actions:
        other = PEOPLE[target % len(PEOPLE)]
        if action == "gathering":
            created.append(logs.write(person, {"type": "gathering"}, clock).id)
        elif action == "name":
            logs.write(
                person, {"type": "about", "about": other.ref, "name": f"name {len(created)} {clock}"}, clock
            )
        elif created:
            about = {"type": "about", "about": created[target % len(created)]}
            if action in ("title", "location"):
                logs.write(person, about | {action: f"{action} {target}"}, clock)
            else:
                attendee = {"link": other.ref, "remove": action == "leave"}
                logs.write(person, about | {"attendee": attendee}, clock)
    return logs.logs


def state(messages):
    directory, gatherings = Directory(), Gatherings()
    for message in messages:
        directory.add(message)
        gatherings.add(message)
    given = {(p.ref, attribute): directory.given(p.ref, attribute) for p in PEOPLE for attribute in ("name",)}
    return given, {name: gatherings.get(name) for name in gatherings.gatherings()}


@settings(max_examples=60)
@given(st.lists(ACTIONS, min_size=1, max_size=20), st.data())
def test_no_interleaving_of_logs_changes_the_state(actions, data):
    logs = write_down(actions)
    in_turn = [message for log in logs.values() for message in log]
    turns = data.draw(st.permutations([author for author, log in logs.items() for _ in log]))
    taken = Counter()
    interleaved = []
    for author in turns:
        interleaved.append(logs[author][taken[author]])
        taken[author] += 1
    expected = state(in_turn)
    assert state(interleaved) == expected
    assert state(interleaved[::-1]) == expected
    assert state(interleaved + in_turn) == expected  # a feed that was dropped and came again


def test_from_a_store():
    """As a program does it: messages from the log of a store, hops from the graph."""
    store = MemoryFeeds()
    store.publish(ANN, {"type": "contact", "contact": BEN.ref, "following": True}, 1)
    store.publish(BEN, {"type": "about", "about": CAT.ref, "name": "Cat"}, 2)
    graph, directory = Graph(ANN.ref), Directory()
    for stored in read_log(store, 0, ["contact", "about"]):
        graph.add(stored.message)
        directory.add(stored.message)
    assert directory.name(CAT.ref, ANN.ref, graph.hops()) == "Cat"
