"""`feednet ssb`: what a user writes is there, with the peer running or not; mistakes are one line."""

import json
import re
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from ssb.daemon.account import Account
from ssb.keys import Identity
from ssb.message import Message
from ssb.transport.address import Invite, PeerAddress
from testbed.cli.main import feednet
from testbed.cli.nodes.ssb_lines import message_line
from testbed.errors import UserError

OTHER = Identity.from_seed(b"o" * 32)
ADDRESS = f"net:127.0.0.1:8008~shs:{OTHER.ref[1:].removesuffix('.ed25519')}"


STOCK = f"""# comments

{{
  "curve": "ed25519",
  "public": "{OTHER.ref[1:]}",
  "private": "{OTHER.secret()}",
  "id": "{OTHER.ref}"
}}
# and more
"""


def ssb(path: Path, *words: str) -> str:
    """Run a command; its errors are raised."""
    done = CliRunner().invoke(feednet, ["ssb", "--path", str(path), *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def status(path: Path) -> dict[str, Any]:
    return json.loads(ssb(path, "status", "--json"))


def test_messages_are_written_and_shown(tmp_path: Path) -> None:
    first = ssb(tmp_path, "publish", "Hello é").strip()
    ssb(tmp_path, "publish", "--content", '{"type": "about", "name": "ann"}')
    assert first.startswith("%")
    lines = ssb(tmp_path, "log").splitlines()
    assert lines[0].endswith("  Hello é")
    assert '"name": "ann"' in lines[1]
    entry = json.loads(ssb(tmp_path, "log", "--json", "--type", "post"))
    assert (entry["key"], entry["value"]["content"]["text"]) == (first, "Hello é")
    assert ssb(tmp_path, "log", "--limit", "1").splitlines() == lines[1:]
    assert ssb(tmp_path, "log", OTHER.ref) == ""
    state = status(tmp_path)
    assert (state["own"], state["messages"], state["running"]) == (2, 2, False)
    assert "not running" in ssb(tmp_path, "status")


def test_names_are_shown_and_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    ssb(tmp_path, "publish", "first")
    own = status(tmp_path)["id"]
    assert status(tmp_path)["names"] == {}
    name = {"type": "about", "about": own, "name": "Ann [red] :b: \x1b[31m" + "x" * 100}
    ssb(tmp_path, "publish", "--content", json.dumps(name))
    shown = "(Ann [red] :b: \ufffd[31mxxxxxxxxxxx)"
    assert f"{own} {shown}" in ssb(tmp_path, "status")
    assert f"{own[:9]}… {shown}     1  first" in ssb(tmp_path, "log")
    assert "name" not in json.loads(ssb(tmp_path, "log", "--json", "--type", "post"))


def test_views_are_made_anew_if_they_are_lost_damaged_or_another_stores(tmp_path: Path) -> None:
    for path in (tmp_path / "one", tmp_path / "two"):
        ssb(path, "publish", "x")
        for seed in (b"a", b"b", b"c"):
            ssb(path, "follow", Identity.from_seed(seed * 32).ref)
        account = Account(path)
        account.views.save()
        account.close()
    views = tmp_path / "one" / "views"
    whole = views.read_bytes()
    other = (tmp_path / "two" / "views").read_bytes()
    fields = json.loads(whole[32:])
    assert [*fields] == [
        "version",
        "cursor",
        "restated",
        "merged",
        "feeds",
        "stated",
        "ended",
        "named",
        "pubs",
    ]
    forms: list[object] = [fields | {"version": 2}, 7, None, [], ["version"], {}, {"version": 3}]
    forms += [{key: value for key, value in fields.items() if key != lost} for lost in fields]
    forms += [fields | {key: wrong} for key in fields for wrong in (None, 1, "x", [1], [[1]], {"a": 1})]
    forms += [{k: v for k, v in fields.items() if k not in ("ended", "pubs")} | {"version": 2}]
    for content in (
        whole,
        other,
        b"",
        whole[:-1],
        whole[:40] + bytes([whole[40] ^ 1]) + whole[41:],
        *(sha256(data).digest() + data for data in (b"", b"x", b"[" * 100_000, b"\xff")),
    ):
        views.write_bytes(content)
        assert status(tmp_path / "one")["replicated"] == 4
    for form in forms:
        data = json.dumps(form).encode()
        views.write_bytes(sha256(data).digest() + data)
        account = Account(tmp_path / "one")
        assert len(account.graph.replicated()) == 4, form
        account.close()
    views.unlink()
    assert status(tmp_path / "one")["replicated"] == 4


def test_a_check_finds_damage_and_says_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file: there are no messages to check"):
        ssb(tmp_path, "check")
    ssb(tmp_path, "publish", "first")
    ssb(tmp_path, "publish", "second")
    own = status(tmp_path)["id"]
    blob = tmp_path / "a.txt"
    blob.write_text("a blob")
    account = Account(tmp_path)
    added = account.blobs.add(b"a blob")
    path = account.blobs._path(added)
    account.close()
    assert ssb(tmp_path, "check") == "2 messages are whole\n"
    path.write_bytes(b"a BLOB")
    with sqlite3.connect(tmp_path / "feeds.sqlite") as database:
        database.execute("UPDATE messages SET text = replace(text, 'first', 'fIrst') WHERE sequence = 1")
    database.close()
    assert "fIrst" not in ssb(tmp_path, "log")
    assert f"damaged      message 1 of {own}; comes again from others" in ssb(tmp_path, "status")
    with pytest.raises(UserError, match=r"^damaged: 1 message and 1 blob; run the peer, so that others"):
        ssb(tmp_path, "check")
    assert not path.exists()
    third = json.loads(ssb(tmp_path, "log", "--json").splitlines()[-1])
    ssb(tmp_path, "publish", "third")
    assert json.loads(ssb(tmp_path, "log", "--json").splitlines()[-1])["value"]["previous"] == third["key"]


def test_private_messages_are_opened_by_their_writer_only_here(tmp_path: Path) -> None:
    ssb(tmp_path, "publish", "for you", "--to", OTHER.ref)
    assert ssb(tmp_path, "log").rstrip().endswith("(private)  for you")
    entry = json.loads(ssb(tmp_path, "log", "--json"))
    assert entry["value"]["content"].endswith(".box")


def test_following_changes_what_is_replicated(tmp_path: Path) -> None:
    ssb(tmp_path, "publish", "x")
    for words, replicated in ((("follow",), 2), (("follow", "--undo"), 1), (("follow",), 2)):
        ssb(tmp_path, *words, OTHER.ref)
        assert status(tmp_path)["replicated"] == replicated
    ssb(tmp_path, "follow", "--block", OTHER.ref)
    assert status(tmp_path)["replicated"] == 1
    account = Account(tmp_path)
    assert account.graph.is_blocked(OTHER.ref)
    assert set(account.graph.blocks()) == {(account.identity.ref, OTHER.ref)}
    account.close()


def test_addresses_are_remembered_once(tmp_path: Path) -> None:
    ssb(tmp_path, "connect", ADDRESS)
    ssb(tmp_path, "connect", ADDRESS.replace("8008", "8009"))
    account = Account(tmp_path)
    assert [(known.port, known.peer) for known in account.known_peers()] == [(8009, OTHER.ref)]
    account.close()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("publish", "--content", "{"), "--content: not JSON"),
        (("publish", "--content", "[]"), "--content: not an object"),
        (("publish", "--content", '{"type": "x"}'), "type"),
        (("publish", "x", "--to", "@nobody"), "reference is not of the form"),
        (("group", "post", "nowhere", "x"), "nowhere: no such group here"),
        (("group", "post", "nowhere", ""), "TEXT is empty"),
        (("group", "add", "nowhere", "@nobody"), "@nobody: "),
        (("group", "log", "nowhere"), "nowhere: no such group here"),
        (("publish", ""), "TEXT is empty"),
        (("publish", " \n"), "TEXT is empty"),
        (("log", "@nobody"), "@nobody: "),
        (("export", "@nobody"), "@nobody: "),
        (("follow", "ssb:message/classic/" + "A" * 43 + "="), "ssb:message.*: reference is not of the form"),
        (("follow", "ssb:feed/bendybutt-v1/" + "A" * 43 + "="), "reference is not of the form"),
        (("follow", "@nobody"), "@nobody: "),
        (("peer", "--ndn-over-ssb", "@nobody"), "--ndn-over-ssb: @nobody: "),
        (("connect", "example.org"), "no address of the form"),
        (("invite", "create"), "not running: start it with"),
        (("invite", "accept", "what"), "an invite has the form"),
        (("peer", "--network", "AAAA"), "--network: a key of 32 bytes"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    ssb(tmp_path, "publish", "before")
    with pytest.raises(UserError, match=reason) as error:
        ssb(tmp_path, *words)
    assert "\n" not in str(error.value)
    assert status(tmp_path)["messages"] == 1


@pytest.mark.parametrize("words", [("log",), ("status",), ("invite", "create"), ("log", OTHER.ref)])
def test_reading_makes_no_account(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Neither in a directory that is not there, as one that was mistyped, nor in one that is empty."""
    for path in (tmp_path / "nosuchdir", tmp_path):
        with pytest.raises(UserError, match="there is no account"):
            ssb(path, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("log",), ("status",), ("publish", "x")])
def test_an_account_whose_identity_was_lost_is_not_begun_anew(tmp_path: Path, words: tuple[str, ...]) -> None:
    ssb(tmp_path, "publish", "x")
    (tmp_path / "secret").unlink()
    with pytest.raises(OSError, match="Put the identity back from a backup"):
        ssb(tmp_path, *words)
    assert not (tmp_path / "secret").exists()


@pytest.mark.parametrize(
    "words", [("publish", ""), ("follow", "@nobody"), ("connect", "example.org"), ("invite", "accept", "x")]
)
def test_what_is_refused_makes_no_account(tmp_path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(UserError):
        ssb(tmp_path, *words)
    assert list(tmp_path.iterdir()) == []


def test_uris_stand_for_references_and_addresses(tmp_path: Path) -> None:
    key = OTHER.ref[1:].removesuffix(".ed25519").translate(str.maketrans("+/", "-_"))
    ssb(tmp_path, "follow", f"ssb:feed/classic/{key}")
    ssb(tmp_path, "publish", "for you", "--to", f"ssb://feed/ed25519/{key}")
    ssb(tmp_path, "connect", f"ssb:address/multiserver?multiserverAddress={quote(ADDRESS, safe='')}")
    assert ssb(tmp_path, "log", f"ssb:feed:ed25519:{key}") == ""
    assert ssb(tmp_path, "export", f"ssb:feed:ed25519:{key}") == ""
    no_schema = str(Path(__file__))
    with pytest.raises(UserError, match="--anchor: "):  # which is read after the feed
        ssb(tmp_path, "peer", "--ndn-over-ssb", f"ssb:feed/classic/{key}", "--anchor", no_schema, no_schema)
    account = Account(tmp_path)
    assert OTHER.ref in account.graph.replicated()
    assert [str(known) for known in account.known_peers()] == [ADDRESS]
    account.close()


def test_an_invite_of_a_peer_that_is_blocked_is_not_used(tmp_path: Path) -> None:
    ssb(tmp_path, "follow", "--block", OTHER.ref)
    with pytest.raises(UserError, match="you block"):
        ssb(tmp_path, "invite", "accept", f"127.0.0.1:9:{OTHER.ref}~{'A' * 43}=")
    with pytest.raises(UserError, match="you block"):
        ssb(tmp_path, "connect", ADDRESS)
    assert status(tmp_path)["messages"] == 1
    ssb(tmp_path, "follow", "--block", "--undo", OTHER.ref)
    ssb(tmp_path, "connect", ADDRESS)


def test_an_account_that_another_program_has_open_is_one_line(tmp_path: Path) -> None:
    account = Account(tmp_path)
    with pytest.raises(OSError, match="another program writes to it") as error:
        ssb(tmp_path, "publish", "x")
    assert "\n" not in str(error.value)
    account.close()


def test_a_stock_identity_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(STOCK)
    with pytest.raises(OSError, match="nothing is published: later messages of your feed may be elsewhere"):
        ssb(tmp_path, "publish", "x")
    code = str(Invite(PeerAddress("127.0.0.1", 9, OTHER.ref), bytes(32)))
    with pytest.raises(UserError, match="the invite is not used up: later messages of your feed"):
        ssb(tmp_path, "invite", "accept", code)
    assert (status(tmp_path)["id"], status(tmp_path)["own"]) == (OTHER.ref, 0)
    ssb(tmp_path, "--new-feed", "publish", "x")
    ssb(tmp_path, "publish", "y")
    assert status(tmp_path)["own"] == 2


def test_a_feed_ends_and_goes_on_in_another_directory(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    ssb(old, "publish", "hello")
    feed = status(old)["id"]
    for name in ("A", "Ann"):
        ssb(old, "publish", "--content", json.dumps({"type": "about", "about": feed, "name": name}))
    ssb(old, "publish", "--content", json.dumps({"type": "about", "about": "%meeting", "title": "mine"}))
    ssb(old, "follow", OTHER.ref)
    ssb(old, "follow", OTHER.ref, "--block")
    message, heir = ssb(old, "end", "--successor", str(new)).split()
    state = status(old)
    assert (state["own"], state["ended"]) == (8, {feed: heir})
    assert f"{feed} (Ann); goes on as {heir}" in ssb(old, "status")
    assert json.loads(ssb(old, "log", "--json", "--type", "end-of-feed"))["key"] == message
    with closing(Account(old)) as account:
        assert account.graph.replicated() == {feed, heir}
    with closing(Account(new)) as account:
        assert account.identity.ref == heir
        assert account.graph.is_blocked(OTHER.ref)
        assert account.graph.replicated() == {feed, heir}
        assert account.views.namer()(heir) == "Ann"
        assert account.own.tip == 3
    with pytest.raises(UserError, match=re.escape(f"ended with message 8, and goes on as {heir}")):
        ssb(old, "publish", "more")
    with pytest.raises(UserError, match="has ended already"):
        ssb(old, "end", "--for-good")
    third = tmp_path / "third"
    ssb(third, "publish", "I do not go on as one that has ended")
    with pytest.raises(UserError, match="has ended already"):
        ssb(third, "end", "--successor", str(old))
    assert status(third)["ended"] == {}
    ssb(new, "end", "--for-good")
    assert status(new)["ended"] == {heir: None}


def test_devices_become_one_identity_without_a_running_peer(tmp_path: Path) -> None:
    """Each command takes the steps that are due; messages cross as exports do."""

    def meet() -> None:
        with closing(Account(laptop)) as one, closing(Account(phone)) as other:
            for source, sink in ((one, other), (other, one)):
                for stored in source.log.messages(None, None, None):
                    sink.feeds.append([stored.message], 1.0)

    laptop, phone = tmp_path / "laptop", tmp_path / "phone"
    for path in (laptop, phone):
        ssb(path, "publish", f"from the {path.name}")
    ids = {path: status(path)["id"] for path in (laptop, phone)}
    about = {"type": "about", "about": ids[laptop], "name": "Ann"}
    ssb(laptop, "publish", "--content", json.dumps(about))
    root = ssb(laptop, "device", "invite", ids[phone]).strip()
    assert ssb(laptop, "device", "invite", ids[phone]).strip() == root
    with pytest.raises(UserError, match=r"no invitation by .* is here; this device follows it now"):
        ssb(phone, "device", "join", ids[laptop])
    with pytest.raises(UserError, match=r"no invitation by .* is here: run this again"):
        ssb(phone, "device", "join", ids[laptop], "--decline")
    meet()
    assert "has not consented yet" in ssb(laptop, "device", "list")
    assert ssb(phone, "device", "join", ids[laptop]).startswith("consented: this device becomes a member")
    with pytest.raises(UserError, match="has consented already, and nothing takes that back"):
        ssb(phone, "device", "join", ids[laptop], "--decline")
    meet()
    assert f"invited      {ids[phone]} by {ids[laptop]}: has consented" in ssb(laptop, "device", "list")
    meet()
    shown = ssb(phone, "device", "list")
    meet()
    both = [f"device       {ids[path]} (Ann)" for path in (laptop, phone)]
    assert shown.splitlines() == ssb(laptop, "device", "list", ids[phone]).splitlines() == both
    assert json.loads(ssb(phone, "device", "list", "--json"))["devices"] == [ids[laptop], ids[phone]]
    log = ssb(laptop, "log", ids[phone], "--devices", "--all")
    assert "from the laptop" in log
    assert "from the phone" in log
    assert "from the laptop" not in ssb(laptop, "log", ids[phone], "--all")
    for said in ("(begins an identity)", "(invites ", "(consents ", "(hands on the key", "is one identity's"):
        assert said in log
    assert "secretKey" not in log
    assert ssb(phone, "device", "join", ids[laptop]) == "this device is one of the identity's already\n"
    with pytest.raises(UserError, match="are one identity already: `feednet ssb device end` ends that"):
        ssb(phone, "device", "join", ids[laptop], "--decline")
    ssb(laptop, "device", "remove", ids[phone], "--reason", "lost")
    assert "(ends the identity" in ssb(laptop, "log")
    assert ssb(laptop, "device", "list").splitlines() == [f"device       {ids[laptop]} (Ann)"]
    meet()
    with pytest.raises(UserError, match="belongs to no identity"):
        ssb(phone, "device", "end")


def test_a_line_shows_the_feeds_of_an_invitation_and_no_other_text() -> None:
    feed = Identity.from_seed(bytes(32)).ref
    content = {"type": "fusion", "invited": {"\x1b[2J": 1, feed: 1}}
    value = {"timestamp": 0, "author": feed, "sequence": 1, "content": content}
    assert message_line(value, None, None).endswith(f"(invites {feed} to one identity)")
    value["content"] = {"type": "fusion", "invited": {"\x1b[2J": 1}}
    assert message_line(value, None, None).endswith("(invites nobody to one identity)")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("device", "invite", "nobody"), "nobody: reference is not of the form"),
        (("device", "join", "@x"), "@x: reference"),
        (("device", "join", "{own}"), "this device cannot join itself"),
        (("device", "invite", "{own}"), "is this device already"),
        (("device", "remove", "{own}"), "to take this device out, remove it on another"),
        (("device", "remove", OTHER.ref), "is no device of yours"),
        (("device", "end"), "belongs to no identity of several devices"),
        (("device", "list", "x"), "x: reference"),
        (("log", "--devices"), "--devices has no effect without"),
    ],
)
def test_a_mistake_about_devices_is_one_line_and_writes_nothing(
    tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    ssb(tmp_path, "publish", "before")
    own = status(tmp_path)["id"]
    given = [word.format(own=own) for word in words]
    done = CliRunner().invoke(feednet, ["ssb", "--path", str(tmp_path), *given])
    said = f"{done.exception}" if isinstance(done.exception, UserError) else done.output
    assert reason in said
    assert not isinstance(done.exception, UserError) or "\n" not in said
    assert status(tmp_path)["own"] == 1


def test_a_successor_is_in_the_groups_of_the_feed_that_ended(tmp_path: Path) -> None:
    """The group has no other member: nobody else could add the successor."""
    old, new = tmp_path / "old", tmp_path / "new"
    group = ssb(old, "group", "create").strip()
    text = ssb(old, "group", "post", group, "read on").strip()
    heir = ssb(old, "end", "--successor", str(new)).split()[1]
    assert set(json.loads(ssb(old, "group", "list", "--json"))["members"]) == {status(old)["id"], heir}
    with closing(Account(old)) as account:
        feed = [stored.message for stored in account.log.messages(None, None, None)]
    with closing(Account(new)) as account:
        for message in feed:
            account.groups.add(message)
        assert account.groups.get(group).members == {status(old)["id"], heir}
        assert account.groups.opened(text) is not None
        assert account.comembers() == {status(old)["id"], heir}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "give --successor DIRECTORY, or --for-good"),
        (("--successor", "here", "--for-good"), "--for-good has no effect with --successor"),
        (("--successor", "{path}"), "holds the feed that is to end"),
        (("--successor", "{path}/secret"), "is a file"),
    ],
)
def test_a_mistake_ends_no_feed(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    ssb(tmp_path, "publish", "before")
    given = [word.format(path=tmp_path) for word in words]
    done = CliRunner().invoke(feednet, ["ssb", "--path", str(tmp_path), "end", *given])
    assert reason in f"{done.exception} {done.output}"
    assert (status(tmp_path)["own"], status(tmp_path)["ended"]) == (1, {})


@pytest.mark.parametrize("time", [1e17, -1e17, 1e300])
def test_a_time_beyond_the_calendar_is_shown_as_it_is(tmp_path: Path, time: float) -> None:
    """A peer signs whatever number it likes."""
    ssb(tmp_path / "ann", "publish", "own")
    strange = Message.create(OTHER, None, {"type": "post", "text": "far"}, time)
    answer = {"type": "post", "text": "on", "root": strange.id, "branch": strange.id}
    lines = [
        json.dumps({"key": each.id, "value": json.loads(each.text)}) + "\n"
        for each in (strange, Message.create(OTHER, strange, answer, time))
    ]
    (tmp_path / "far.jsonl").write_text("".join(lines))
    ssb(tmp_path / "ann", "import", str(tmp_path / "far.jsonl"))
    [shown] = [line for line in ssb(tmp_path / "ann", "log").splitlines() if line.endswith("far")]
    assert shown.startswith(f"{time:g} ms  ")
    assert f"the last {time:g} ms" in ssb(tmp_path / "ann", "view", "threads")


TO_URI = str.maketrans("+/", "-_")


def carried(source: Path, *others: Path) -> None:
    """Carry all messages of an account to others."""
    file = source.parent / "messages.jsonl"
    file.write_text(ssb(source, "export"))
    for path in others:
        ssb(path, "import", str(file))


def test_a_private_group_from_its_beginning_to_a_removal(tmp_path: Path) -> None:
    ann, ben, dan = people = [tmp_path / name for name in ("ann", "ben", "dan")]
    for path in people:
        ssb(path, "publish", path.name)
    feeds = {path.name: status(path)["id"] for path in people}
    group = ssb(ann, "group", "create").strip()
    ssb(ann, "group", "post", group, "before")
    ssb(ann, "group", "add", group, feeds["ben"], feeds["dan"], "--text", "welcome")
    carried(ann, ben, dan)
    assert [json.loads(ssb(path, "group", "list", "--json"))["members"] for path in people] == [
        sorted(feeds.values())
    ] * 3
    shown = ssb(dan, "group", "log", group)
    assert [line.split("  (private)  ")[1] for line in shown.splitlines()] == [
        "(begins a group)",
        f"(adds {feeds['ann']})",
        "before",
        f"(adds {feeds['ben']}, {feeds['dan']}) welcome",
    ]
    key = json.loads(ssb(ann, "group", "log", group, "--json").splitlines()[1])["opened"]["groupKey"]
    assert key not in ssb(ann, "log")
    ssb(ben, "group", "remove", group, feeds["dan"])
    said = ssb(ben, "group", "post", f"ssb:identity/group/{group[1:-8].translate(TO_URI)}", "after").strip()
    carried(ben, ann, dan)
    assert ssb(ann, "group", "log", group, "--limit", "1").endswith("(private)  after\n")
    assert "(private, for others)" in ssb(dan, "log", "--limit", "1")
    assert "no member any more" in ssb(dan, "group", "list")
    with pytest.raises(UserError, match="you are no member"):
        ssb(dan, "group", "post", group, "?")
    entries = [json.loads(line) for line in ssb(dan, "log", "--all", "--json").splitlines()]
    assert said in [entry["key"] for entry in entries]


def test_a_private_message_for_fifteen(tmp_path: Path) -> None:
    others = [Identity.from_seed(bytes([number]) * 32) for number in range(15)]
    to = [word for each in others for word in ("--to", each.ref)]
    ssb(tmp_path / "ann", "publish", "for you all", "--box2", *to)
    carried(tmp_path / "ann", tmp_path / "ben")
    assert ssb(tmp_path / "ann", "log").endswith("(private)  for you all\n")
    assert "(private, for others)" in ssb(tmp_path / "ben", "log")
    Account(tmp_path / "last", identity=others[14]).close()
    carried(tmp_path / "ann", tmp_path / "last")
    assert ssb(tmp_path / "last", "log").endswith("(private)  for you all\n")
    with pytest.raises(UserError, match="1 to 16 recipients, not 17"):
        ssb(tmp_path / "ann", "publish", "x", "--box2", *to, "--to", OTHER.ref)
