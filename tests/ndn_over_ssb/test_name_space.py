"""The name space follows from the logs alone, in whatever order they come."""

from collections import defaultdict
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forwarder.wire.name import from_uri, to_uri
from ndn_over_ssb.name_space import NameSpace, Statement, statement
from ssb.message import Message
from testbed.verify.providers.network import identity

PEOPLE = ("root", "ann", "bob", "cy")
REFS = {identity(name).ref: name for name in PEOPLE}


class Logs:
    """People's logs, written one message after the other."""

    def __init__(self) -> None:
        self.messages: defaultdict[str, list[Message]] = defaultdict(list)

    def say(self, name: str, do: str, **parts: Any) -> str:
        for part in ("to",):
            if part in parts:
                parts[part] = identity(parts[part]).ref
        if "prefix" in parts:
            parts["prefix"] = from_uri(parts["prefix"])
        if "repositories" in parts:
            parts["repositories"] = tuple(identity(each).ref for each in parts["repositories"])
        return self.write(name, statement(do, **parts))

    def write(self, name: str, content: dict[str, Any]) -> str:
        log = self.messages[name]
        message = Message.create(identity(name), log[-1] if log else None, content, len(log))
        log.append(message)
        return message.id

    def read(self, order: Random | None = None) -> NameSpace:
        """Return the name space; messages of different logs come in a random order."""
        space = NameSpace(identity("root").ref)
        left = {name: list(log) for name, log in self.messages.items()}
        while any(left.values()):
            names = [name for name, log in left.items() if log]
            name = names[0] if order is None else order.choice(names)
            space.read(left[name].pop(0))
            if order is not None and order.random() < 0.3:
                space.holdings()
        return space


def held(space: NameSpace) -> dict[str, str]:
    return {to_uri(prefix): REFS[holding.holder] for prefix, holding in space.holdings().items()}


def void(space: NameSpace) -> list[str]:
    return [verdict.void for verdict in space.verdicts() if verdict.void]


def test_the_root_allocates_and_holders_delegate() -> None:
    logs = Logs()
    a = logs.say("root", "allocate", prefix="/a", to="ann")
    b = logs.say("ann", "delegate", title=a, prefix="/a/b", to="bob")
    logs.say("bob", "repository", title=b, repositories=["bob", "cy"])
    space = logs.read()
    assert held(space) == {"/a": "ann", "/a/b": "bob"}
    found = space.find(from_uri("/a/b/c/d"))
    assert found is not None
    assert found.repositories == (identity("bob").ref, identity("cy").ref)
    other = space.find(from_uri("/a/x"))
    assert other is not None
    assert REFS[other.holder] == "ann"
    assert space.find(from_uri("/x")) is None
    assert space.holders() == {identity(name).ref for name in ("root", "ann", "bob")}


def test_nobody_gives_away_what_is_not_theirs() -> None:
    logs = Logs()
    a = logs.say("root", "allocate", prefix="/a", to="ann")
    logs.say("bob", "allocate", prefix="/b", to="bob")
    logs.say("bob", "delegate", title=a, prefix="/a/b", to="bob")
    logs.say("ann", "delegate", title=a, prefix="/b", to="ann")
    logs.say("ann", "delegate", title=a, prefix="/a", to="bob")
    space = logs.read()
    assert held(space) == {"/a": "ann"}
    assert sorted(void(space)) == [
        "/a is not under /a",
        "/b is not under /a",
        "its author does not have that title",
        "only the root acts without a title",
    ]


@pytest.mark.parametrize("second", ["/a/b", "/a", "/a/b/c"])
def test_of_two_claims_to_a_name_the_first_in_the_log_stands(second: str) -> None:
    logs = Logs()
    logs.say("root", "allocate", prefix="/a/b", to="ann")
    logs.say("root", "allocate", prefix=second, to="bob")
    space = logs.read()
    assert held(space) == {"/a/b": "ann"}
    assert void(space) == ["/a/b was given away before"]


def test_a_name_is_free_again_when_it_was_revoked() -> None:
    logs = Logs()
    a = logs.say("root", "allocate", prefix="/a", to="ann")
    b = logs.say("ann", "delegate", title=a, prefix="/a/b", to="bob")
    logs.say("bob", "delegate", title=b, prefix="/a/b/c", to="cy")
    logs.say("root", "revoke", allocation=a)
    logs.say("root", "allocate", prefix="/a", to="cy")
    space = logs.read()
    assert held(space) == {"/a": "cy"}
    assert void(space) == ["its author does not have that title"] * 2


def test_the_heir_of_a_title_goes_on_where_the_holder_ended() -> None:
    logs = Logs()
    a = logs.say("root", "allocate", prefix="/a", to="ann")
    b = logs.say("ann", "delegate", title=a, prefix="/a/b", to="cy")
    title = logs.say("ann", "transfer", title=a, to="bob")
    logs.say("ann", "delegate", title=a, prefix="/a/late", to="ann")
    logs.say("bob", "delegate", title=title, prefix="/a/c", to="bob")
    assert held(logs.read()) == {"/a": "bob", "/a/b": "cy", "/a/c": "bob"}
    assert void(logs.read()) == ["its author has handed on the title"]
    logs.say("bob", "revoke", title=title, allocation=b)
    back = logs.say("bob", "transfer", title=title, to="ann")
    logs.say("ann", "delegate", title=back, prefix="/a/b", to="ann")
    assert held(logs.read()) == {"/a": "ann", "/a/b": "ann", "/a/c": "bob"}


def test_the_root_hands_on_its_office() -> None:
    logs = Logs()
    logs.say("root", "allocate", prefix="/a", to="ann")
    title = logs.say("root", "transfer", to="cy")
    logs.say("root", "allocate", prefix="/b", to="ann")
    logs.say("cy", "allocate", title=title, prefix="/c", to="bob")
    space = logs.read()
    assert held(space) == {"/a": "ann", "/c": "bob"}
    assert REFS[space.office.holder] == "cy"
    assert space.office.title == title
    assert REFS[space.giver(space.holdings()[from_uri("/a")]).holder] == "cy"


def test_a_forked_log_counts_up_to_the_fork() -> None:
    logs = Logs()
    a = logs.say("root", "allocate", prefix="/a", to="ann")
    logs.say("ann", "delegate", title=a, prefix="/a/b", to="bob")
    logs.say("ann", "delegate", title=a, prefix="/a/c", to="bob")
    space = logs.read()
    space.forked(identity("ann").ref, 2)
    assert held(space) == {"/a": "ann", "/a/b": "bob"}
    assert void(space) == ["its log is forked"]


@pytest.mark.parametrize(
    "content",
    [
        {"do": "annex", "prefix": "/a", "to": identity("ann").ref},
        {"do": "allocate", "prefix": "/a"},
        {"do": "allocate", "to": identity("ann").ref},
        {"do": "allocate", "prefix": "/", "to": identity("ann").ref},
        {"do": "allocate", "prefix": "a", "to": identity("ann").ref},
        {"do": "allocate", "prefix": "/%zz", "to": identity("ann").ref},
        {"do": "allocate", "prefix": "/a/" + "b" * 400, "to": identity("ann").ref},
        {"do": "allocate", "prefix": "/a", "to": "ann"},
        {"do": "allocate", "prefix": ["/a"], "to": identity("ann").ref},
        {"do": "delegate", "prefix": "/a", "to": identity("ann").ref},
        {"do": "revoke", "allocation": "a"},
        {"do": "repository", "repositories": []},
        {"do": ["allocate"]},
        {},
    ],
)
def test_what_cannot_be_understood_counts_for_nothing(content: dict[str, Any]) -> None:
    logs = Logs()
    logs.write("root", {"type": "ndn-name-space"} | content)
    logs.write("root", {"type": "post", "text": "hello"})
    logs.say("root", "allocate", prefix="/a", to="ann")
    assert held(logs.read()) == {"/a": "ann"}


# Statements at random, against a model that plays the logs from the root down


@st.composite
def histories(draw: st.DrawFn) -> Logs:
    """Logs in which people do all they may, and much that they may not."""
    logs = Logs()
    ids: list[str] = []
    uris = ("/a", "/a/b", "/a/b/c", "/a/c", "/b", "/b/c")
    for _ in range(draw(st.integers(1, 25))):
        name = draw(st.sampled_from(PEOPLE))
        do = draw(st.sampled_from(["allocate", "delegate", "delegate", "transfer", "revoke", "repository"]))
        parts: dict[str, Any] = {}
        if do in ("delegate", "repository") or (name != "root" and do != "allocate"):
            if not ids:
                continue
            parts["title"] = draw(st.sampled_from(ids))
        if do in ("allocate", "delegate"):
            parts["prefix"] = draw(st.sampled_from(uris))
        if do in ("allocate", "delegate", "transfer"):
            parts["to"] = draw(st.sampled_from(PEOPLE))
        if do == "revoke":
            if not ids:
                continue
            parts["allocation"] = draw(st.sampled_from(ids))
        if do == "repository":
            parts["repositories"] = draw(st.lists(st.sampled_from(PEOPLE), max_size=2, unique=True))
        ids.append(logs.say(name, do, **parts))
    return logs


def is_in(uri: str, prefix: str) -> bool:
    return f"{uri}/".startswith(f"{prefix}/")


def model(logs: Logs) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return prefix -> holder and repositories: for each title it goes through all logs again."""
    result: dict[str, tuple[str, tuple[str, ...]]] = {}

    def play(prefix: str, holder: str, title: str) -> None:
        given: list[tuple[str, str, str]] = []  # allocation, prefix, holder
        repositories: tuple[str, ...] = ()
        log = [(name, message) for name in PEOPLE for message in logs.messages[name]]
        while True:
            heir = None
            for name, message in log:
                content: Any = message.content
                if name != holder or content.get("title", "") != title:
                    continue
                do = content["do"]
                if do == ("delegate" if prefix else "allocate"):
                    new = content["prefix"]
                    taken = [other for _, other, _ in given]
                    is_free = not any(is_in(new, other) or is_in(other, new) for other in taken)
                    if is_in(new, prefix) and new != prefix and is_free:
                        given.append((message.id, new, REFS[content["to"]]))
                elif do == "revoke":
                    given = [each for each in given if each[0] != content["allocation"]]
                elif do == "repository":
                    repositories = tuple(REFS[each] for each in content["repositories"])
                elif do == "transfer":
                    heir = (REFS[content["to"]], message.id)
                    break
            if heir is None:
                break
            holder, title = heir
        if prefix:
            result[prefix] = (holder, repositories)
        for allocation, child, owner in given:
            play(child, owner, allocation)

    play("", "root", "")
    return result


@given(histories(), st.integers(0, 1 << 32))
def test_all_have_the_same_name_space(logs: Logs, seed: int) -> None:
    space, other = logs.read(), logs.read(Random(seed))
    assert held(space) == held(other)
    assert [*space.verdicts()] == [*other.verdicts()]
    found = {
        to_uri(prefix): (REFS[holding.holder], tuple(REFS[each] for each in holding.repositories))
        for prefix, holding in space.holdings().items()
    }
    assert found == model(logs)
    for verdict in space.verdicts():
        assert Statement.read(verdict_message(logs, verdict.statement.id)) == verdict.statement


def verdict_message(logs: Logs, wanted: str) -> Message:
    return next(m for log in logs.messages.values() for m in log if m.id == wanted)
