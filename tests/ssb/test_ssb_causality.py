"""Causal order of all messages: hashes say which are older, against an obvious model."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ssb_import import ssb
from test_ssb_tangles import ANN, BEN, PEOPLE, Logs

from ssb.applications.causality import CausalOrder
from ssb.keys import message_ref
from ssb.message import Message
from testbed.errors import UserError


def pasts(messages: list[Message]) -> dict[str, set[str]]:
    """The model: what a message contains is older, and what that contains, until nothing is added."""
    found = {each.id: {other.id for other in messages if other.id in each.text} for each in messages}
    for _ in messages:
        found = {id_: older.union(*(found[each] for each in older)) for id_, older in found.items()}
    return found


@st.composite
def logs(draw: st.DrawFn) -> list[Message]:
    """Logs of three people who claim any times, and name messages in any field; one may fork."""
    written = Logs()
    for _ in range(draw(st.integers(1, 10))):
        person = draw(st.sampled_from(PEOPLE))
        named = draw(st.lists(st.sampled_from(written.written), max_size=2)) if written.written else []
        field = draw(st.sampled_from(["branch", "vote", "text"]))
        value: Any = " and ".join(each.id for each in named) if field == "text" else [x.id for x in named]
        written.write(person, {"type": "post", field: value}, draw(st.integers(0, 3)))
    forked = Message.create(ANN, None, {"type": "post", "text": written.written[-1].id}, 1)
    return [*written.written, *([forked] if draw(st.booleans()) else [])]


@settings(max_examples=200)
@given(logs(), st.data())
def test_hashes_order_messages_whatever_came_first(written: list[Message], data: st.DataObject) -> None:
    here = data.draw(st.lists(st.sampled_from(written), unique_by=lambda each: each.id))
    order, model = CausalOrder(here), pasts(here)
    shown = order.order()
    assert sorted(shown) == sorted(each.id for each in here)
    keys = {each.id: (each.timestamp, each.author, each.sequence, each.id) for each in here}
    for place, id_ in enumerate(shown):
        assert order.before(id_) == model[id_] <= {*shown[:place]}
        assert order.after(id_) == {other for other, older in model.items() if id_ in older}
        free = [each for each in shown[place:] if model[each] <= {*shown[:place]}]
        assert id_ == min(free, key=lambda each: keys[each])
    assert CausalOrder(data.draw(st.permutations(here))).order() == shown


def test_a_message_that_is_not_here_is_before_nothing() -> None:
    order = CausalOrder([])
    assert order.order() == []
    assert message_ref(bytes(32)) not in order
    first = Message.create(BEN, None, {"type": "post", "text": message_ref(bytes(32))}, 1)
    assert CausalOrder([first]).before(first.id) == set()


def ids(output: str) -> list[str]:
    return [json.loads(line)["key"] for line in output.splitlines()]


def test_causal_order_on_the_command_line(tmp_path: Path) -> None:
    """Ben's answer claims to be older than its question, and comes before it."""
    question = Message.create(ANN, None, {"type": "post", "text": "Question"}, 2e12)
    answer = Message.create(
        BEN, None, {"type": "post", "text": "Answer", "root": question.id, "branch": question.id}, 1e12
    )
    like = Message.create(BEN, answer, {"type": "vote", "vote": {"link": answer.id, "value": 1}}, 1e12)
    other = Message.create(PEOPLE[2], None, {"type": "post", "text": "Aside"}, 5e11)
    stick = tmp_path / "stick"
    lines = (
        {"key": m.id, "value": json.loads(m.text), "timestamp": 0} for m in (answer, like, other, question)
    )
    stick.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ann = tmp_path / "cat"
    ssb(ann, "import", str(stick))
    every = [other.id, question.id, answer.id, like.id]
    assert ids(ssb(ann, "log", "--all", "--json"))[:2] == [answer.id, like.id]
    assert ids(ssb(ann, "log", "--causal", "--json")) == every
    assert ids(ssb(ann, "log", "--causal", "--limit", "2", "--json")) == every[2:]
    assert ids(ssb(ann, "log", "--causal", "--type", "post", "--json")) == every[:3]
    assert ids(ssb(ann, "log", BEN.ref, "--causal", "--json")) == every[2:]
    assert ids(ssb(ann, "log", "--before", like.id, "--json")) == every[1:3]
    assert ids(ssb(ann, "log", "--after", question.id, "--json")) == every[2:]
    assert ids(ssb(ann, "log", "--after", question.id, "--before", like.id, "--json")) == [answer.id]
    assert ssb(ann, "log", "--before", other.id) == ""
    assert [line.split()[-1] for line in ssb(ann, "log", "--causal", "--type", "post").splitlines()] == [
        *("Aside", "Question", "Answer"),
    ]
    with pytest.raises(
        UserError, match=r"--after: %x: no message here has this id; `feednet ssb get` fetches"
    ):
        ssb(ann, "log", "--after", "%x")
