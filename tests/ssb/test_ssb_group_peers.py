"""Private groups of our peer and of stock ones (ssb-tribes 4): each reads what the other writes."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from stock_peer import OurPeer, StockPeer, node_modules, until


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    node_modules("ssb/tribes")
    with ExitStack() as peers:
        yield peers


def tribes(stack: ExitStack, directory: Path) -> StockPeer:
    return stack.enter_context(StockPeer(directory, packages="ssb/tribes"))


def meet(ours: OurPeer, *others: StockPeer) -> None:
    """Let all replicate each other's feeds."""
    for other in others:
        ours.follow(other.id)
        other.do("request", feeds=[ours.id, *(each.id for each in others if each is not other)])
        ours.do("connect", arguments=[other.address])


def texts(ours: OurPeer, group: str) -> set[str]:
    return {str(entry["opened"].get("text")) for entry in ours.stream("groups", "log", id=group)}


def reads(stock: StockPeer, message: str) -> bool:
    """Whether a stock peer, which has the message, can open it."""
    return not isinstance(stock.do("content", message=message), str)


def has(stock: StockPeer, ours: OurPeer) -> bool:
    return stock.do("heads").get(ours.id) == ours.do("status")["own"]


def members(ours: OurPeer, group: str) -> list[str]:
    found = {each["id"]: each["members"] for each in ours.do("groups", "list")}
    return found.get(group, [])


def test_direct_messages_cross_both_ways(tmp_path: Path, stack: ExitStack) -> None:
    stock, ours = tribes(stack, tmp_path / "stock"), stack.enter_context(OurPeer(tmp_path / "ours"))
    meet(ours, stock)
    theirs = stock.do("direct", text="for you é", recps=[ours.id, stock.id])
    content = {"type": "post", "text": "for you, too", "recps": [stock.id, ours.id]}
    sent = ours.do("publish", arguments=[content, [stock.id], "box2"])["key"]
    until(lambda: has(stock, ours) and theirs in ours.ids(stock.id))
    assert stock.do("content", message=sent) == content
    logged = {entry["key"]: entry for entry in ours.stream("createLogStream", private=True)}
    assert logged[theirs]["opened"]["text"] == "for you é"
    assert logged[sent]["opened"] == content


def test_a_group_of_ours_is_read_and_written_by_a_stock_peer(tmp_path: Path, stack: ExitStack) -> None:
    stock, ours = tribes(stack, tmp_path / "stock"), stack.enter_context(OurPeer(tmp_path / "ours"))
    meet(ours, stock)
    group = ours.do("groups", "create")
    before = ours.do("groups", "post", arguments=[group, {"type": "post", "text": "before"}])
    until(lambda: has(stock, ours))
    assert not reads(stock, before)
    ours.do("groups", "add", arguments=[group, [stock.id], "welcome"])
    until(lambda: stock.do("groups") == [group])
    until(lambda: reads(stock, before))
    assert set(stock.do("members", group=group)) == {ours.id, stock.id}
    after = ours.do("groups", "post", arguments=[group, {"type": "post", "text": "after"}])
    until(lambda: has(stock, ours))
    assert stock.do("content", message=after)["text"] == "after"
    stock.do("direct", text="from a stock peer", recps=[group])
    until(lambda: "from a stock peer" in texts(ours, group))
    assert texts(ours, group) == {"None", "before", "welcome", "after", "from a stock peer"}


def test_a_group_of_a_stock_peer_is_read_and_written_by_ours(tmp_path: Path, stack: ExitStack) -> None:
    stock, ours = tribes(stack, tmp_path / "stock"), stack.enter_context(OurPeer(tmp_path / "ours"))
    meet(ours, stock)
    group = stock.do("createGroup")
    stock.do("direct", text="before", recps=[group])
    stock.do("invite", group=group, feeds=[ours.id])
    until(lambda: members(ours, group) == sorted([ours.id, stock.id]))
    assert {"before", "welcome"} <= texts(ours, group)
    said = ours.do("groups", "post", arguments=[group, {"type": "post", "text": "from ours"}])
    until(lambda: has(stock, ours))
    assert stock.do("content", message=said)["text"] == "from ours"


def test_members_of_a_group_replicate_each_other(tmp_path: Path, stack: ExitStack) -> None:
    """Ours follows one stock peer, and is connected with it alone; the other one is in their group."""
    one, other = tribes(stack, tmp_path / "one"), tribes(stack, tmp_path / "other")
    ours = stack.enter_context(OurPeer(tmp_path / "ours"))
    one.do("request", feeds=[ours.id, other.id])
    other.do("request", feeds=[one.id, ours.id])
    one.do("connect", address=other.address)
    ours.follow(one.id)
    ours.do("connect", arguments=[one.address])
    group = one.do("createGroup")
    one.do("invite", group=group, feeds=[ours.id, other.id])
    until(lambda: one.do("heads").get(other.id, 0) == 0 and other.do("groups") == [group])
    other.do("direct", text="from a friend's friend", recps=[group])
    until(lambda: "from a friend's friend" in texts(ours, group))


def test_a_removed_stock_peer_reads_no_more_and_the_others_go_on(tmp_path: Path, stack: ExitStack) -> None:
    """An epoch is a further group to ssb-tribes: it reads it, and writes to it under its own id."""
    stays, goes = tribes(stack, tmp_path / "stays"), tribes(stack, tmp_path / "goes")
    ours = stack.enter_context(OurPeer(tmp_path / "ours"))
    meet(ours, stays, goes)
    group = ours.do("groups", "create")
    ours.do("groups", "add", arguments=[group, [stays.id, goes.id], ""])
    until(lambda: stays.do("groups") == goes.do("groups") == [group])
    epoch = ours.do("groups", "remove", arguments=[group, [goes.id]])
    said = ours.do("groups", "post", arguments=[group, {"type": "post", "text": "without"}])
    until(lambda: set(stays.do("groups")) == {group, epoch})
    until(lambda: has(stays, ours) and has(goes, ours) and reads(stays, said))
    assert goes.do("content", message=said).endswith(".box2")
    assert set(stays.do("members", group=epoch)) == {ours.id, stays.id}
    answer = stays.do("direct", text="an answer", recps=[epoch])
    until(lambda: "an answer" in texts(ours, group))
    until(lambda: goes.do("heads").get(stays.id) == stays.do("heads")[stays.id])
    assert goes.do("content", message=answer).endswith(".box2")


def test_a_stock_peer_that_removes_somebody_keeps_the_key_and_ours_says_so(
    tmp_path: Path, stack: ExitStack
) -> None:
    stays, goes = tribes(stack, tmp_path / "stays"), tribes(stack, tmp_path / "goes")
    ours = stack.enter_context(OurPeer(tmp_path / "ours"))
    meet(ours, stays, goes)
    group = stays.do("createGroup")
    stays.do("invite", group=group, feeds=[ours.id, goes.id])
    until(lambda: len(members(ours, group)) == 3)
    stays.do("exclude", group=group, feeds=[goes.id])
    until(lambda: members(ours, group) == sorted([ours.id, stays.id]))
    [shown] = ours.do("groups", "list")
    assert shown["readers"] == sorted([ours.id, stays.id, goes.id])
    ours.do("groups", "remove", arguments=[group, [goes.id]])
    [shown] = ours.do("groups", "list")
    assert shown["readers"] == sorted([ours.id, stays.id])
