"""A broken first suite: what a forger, a bad notary and a loss of files can do against the second one."""

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from stock_peer import OurPeer, until

from ssb import key_file
from ssb.daemon.account import Account
from ssb.daemon.commands import CommandError
from ssb.keys import Identity
from ssb.message import Message
from ssb.store.feeds import StoreError, read_feed
from ssb.suites.countersignature import (
    EMPTY,
    CountersignedLog,
    Reader,
    countersign,
    declaration,
    log_hash,
)
from ssb.suites.notary import MOST_KEYS, notarise, statements, vouch
from ssb.suites.own_key import read_key
from ssb.suites.suite import SECOND, PrivateKey, PublicKey
from testbed.cli.main import feednet
from testbed.errors import UserError

POST: dict[str, Any] = {"type": "post", "text": "hello"}
AUTHOR = Identity.from_seed(b"a" * 32)
AFTER, BEFORE = "2999-01-01", "2001-01-01"


def ssb(path: Path, *words: str) -> tuple[str, str]:
    """Run a command; return its output, and the line of its error."""
    done = CliRunner().invoke(feednet, ["ssb", "--path", str(path), *words], standalone_mode=False)
    assert done.exception is None or isinstance(done.exception, UserError | OSError), done.exception
    error = "" if done.exception is None else str(done.exception)
    assert "\n" not in error
    return done.output.strip(), error


def account_of(path: Path, texts: int) -> str:
    """Write messages, and return the feed."""
    for number in range(texts):
        ssb(path, "publish", f"message {number}")
    return key_file.read(path / "secret").ref


def log_of(path: Path, feed: str) -> list[Message]:
    with closing(Account(path)) as account:
        return [stored.message for stored in read_feed(account.feeds, feed)]


def give(path: Path, messages: list[Message]) -> None:
    """Give an account messages as another peer does."""
    with closing(Account(path)) as account:
        assert not account.feeds.append(messages, 1).refused


def forge(path: Path, content: dict[str, Any]) -> Message:
    """Return a message behind the last one of an account, by who has its old key."""
    identity = key_file.read(path / "secret")
    log = log_of(path, identity.ref)
    return Message.create(identity, log[-1], content, log[-1].timestamp + 1)


def test_a_forger_with_the_old_key_gets_no_countersignature(tmp_path: Path) -> None:
    """Peers as users run them: the author's one fetches a message of its own feed, and forwards it."""
    with OurPeer(tmp_path / "ann") as ann:
        ann.publish(1)
        key = ann.do("suites", "begin")["key"]
        ann.publish(1)
        identity = key_file.read(tmp_path / "ann" / "secret")
        log = [Message.from_value(entry["value"]) for entry in ann.log(ann.id)]
        forged = Message.create(identity, log[-1], {**POST, "text": "forged"}, log[-1].timestamp + 1)
        with closing(Account(tmp_path / "forger")) as account:
            account.feeds.append([*log, forged], 1)
            account.publish({"type": "contact", "contact": ann.id, "following": True}, 1)
        with OurPeer(tmp_path / "forger") as forger:
            ann.do("connect", arguments=[forger.address])
            until(lambda: len(ann.ids(ann.id)) == 4)
            until(lambda: "later messages of your feed" not in ann.do("status")["doubt"])
            for call, content in (("publish", POST), ("suites.notarise", ann.id), ("suites.begin", None)):
                with pytest.raises(CommandError, match="message 4 of your feed was not written here"):
                    ann.do(*call.split("."), arguments=[] if content is None else [content])
            asked = {"id": ann.id, "broken": 0, "keys": [key]}
            found = forger.do("suites", "vouched", arguments=[asked])
            assert (found["vouched"], found["messages"]) == (3, 4)
        ann.do("suites", "begin", arguments=[{"anew": True}])  # its user insists
        ann.publish(1)
        assert ann.do("suites", "vouched", arguments=[asked])["vouched"] == 5


def test_a_forger_in_a_notary_s_log_states_nothing(tmp_path: Path) -> None:
    """The notary's own program does not build on a forged statement, and so does not date it."""
    ann, notary = tmp_path / "ann", tmp_path / "notary"
    feed = account_of(ann, 2)
    key, _ = ssb(notary, "suite")
    forged = Message.create(key_file.read(ann / "secret"), None, {**POST, "text": "forged"}, 1)
    give(notary, [forged])
    statement = notarise(feed, SECOND, [forged.encoded])
    give(notary, [forge(notary, statement)])
    for words in (("notarise", feed), ("publish", "hello"), ("suite",)):
        assert "message 2 of your feed was not written here" in ssb(notary, *words)[1]
    assert "message 2 of your feed was not written here" in ssb(notary, "status")[0]
    output, error = ssb(notary, "vouched", feed, "--broken", AFTER, "--notary", key)
    assert output == ""
    assert error == f"messages 1 to 1 of {feed} may be forged: nothing vouches for them"


def test_a_bare_statement_dates_from_the_message_that_proves_it() -> None:
    """Else its date would be what a forger with the notary's old key has written."""
    key = PrivateKey.from_seed(SECOND, b"n" * SECOND.seed_bytes)
    notary = Identity.from_seed(b"n" * 32)
    log = [Message.create(AUTHOR, None, POST, 1)]
    bare = Message.create(notary, None, notarise(AUTHOR.ref, SECOND, [log[0].encoded]), 5)
    before = log_hash(SECOND, EMPTY, bare.encoded)
    signed = Message.create(notary, bare, countersign(key, notary.ref, 2, 100, POST, before), 100)
    assert list(statements([bare], key.public)) == []
    said = list(statements([bare, signed], key.public))
    assert [one.date for one in said] == [100]
    assert vouch(log, said, 50).vouched == 0
    assert vouch(log, said, 101).vouched == 1


@pytest.mark.parametrize("lost", ["the key", "all but the identity"])
def test_a_lost_key_is_told_and_not_replaced(tmp_path: Path, lost: str) -> None:
    """Each key that the author has declared proves its own messages."""
    ann, copy = tmp_path / "ann", tmp_path / "copy"
    feed = account_of(ann, 1)
    key, _ = ssb(ann, "suite")
    ssb(ann, "publish", "countersigned")
    secret = (ann / "secret.ed448").read_bytes()
    if lost == "the key":
        (ann / "secret.ed448").unlink()
    else:
        log = log_of(ann, feed)
        identity = (ann / "secret").read_bytes()
        ann = copy
        ann.mkdir()
        (ann / "secret").write_bytes(identity)
        give(ann, log)
        ssb(ann, "--new-feed", "status")
    for words in (("publish", "bare"), ("suite",), ("notarise", feed)):
        assert "secret.ed448: lost: this key countersigns your feed" in ssb(ann, *words)[1]
    assert "secret.ed448: lost" in ssb(ann, "status")[0]
    assert len(log_of(ann, feed)) == 3
    if lost == "the key":
        (ann / "secret.ed448").write_bytes(secret)
        assert ssb(ann, "publish", "it is back")[1] == ""
        (ann / "secret.ed448").unlink()
    proved = len(log_of(ann, feed))
    other, error = ssb(ann, "suite", "--anew")
    assert (error, other != key) == ("", True)
    assert ssb(ann, "suite") == (other, "")
    ssb(ann, "publish", "by the other key")
    asked = ("vouched", feed, "--broken", BEFORE, "--key")
    assert f"messages 1 to {proved} of {proved + 2}: countersigned" in ssb(ann, *asked, key)[0]
    output, error = ssb(ann, *asked, other)
    assert f"messages 1 to {proved + 2} of {proved + 2}: countersigned" in output
    assert error == ""


@pytest.mark.parametrize("used", [0, 1])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_each_declared_key_is_tried(used: int, order: tuple[int, int]) -> None:
    keys = [PrivateKey.from_seed(SECOND, bytes([number]) * SECOND.seed_bytes) for number in range(2)]
    written = CountersignedLog(AUTHOR)
    contents = [(keys[number], declaration(keys[number].public)) for number in order]
    for number, (key, content) in enumerate([*contents, (keys[used], POST)], 1):
        written.write(key, content, number)
    log = written.messages
    notary = Identity.from_seed(b"n" * 32)
    said = notarise(AUTHOR.ref, SECOND, [message.encoded for message in log[:2]])
    statement = Message.create(notary, None, countersign(keys[0], notary.ref, 1, 1, said, EMPTY), 1)
    assert vouch(log, statements([statement], keys[0].public), 2).vouched == 3


def told(path: Path, feed: str, keys: list[str], broken: str = AFTER) -> tuple[str, str]:
    return ssb(
        path, "vouched", feed, "--broken", broken, *(part for key in keys for part in ("--notary", key))
    )


def test_notaries_that_differ_are_told(tmp_path: Path) -> None:
    """One of them was given another log, or lies. What the other says still counts, but not silently."""
    reader = tmp_path / "reader"
    feed = account_of(tmp_path / "ann", 3)
    log = log_of(tmp_path / "ann", feed)
    forger = key_file.read(tmp_path / "ann" / "secret")
    another = [Message.create(forger, None, {**POST, "text": "another"}, 1)]
    another.append(Message.create(forger, another[0], POST, 2))
    keys, feeds = [], []
    ssb(reader, "publish", "I read")
    give(reader, log)
    for name, shown in (("good", log[:2]), ("bad", another)):
        keys.append(ssb(tmp_path / name, "suite")[0])
        give(tmp_path / name, shown)
        assert "messages 1 to 2 of" in ssb(tmp_path / name, "notarise", feed)[0]
        feeds.append(key_file.read(tmp_path / name / "secret").ref)
        give(reader, log_of(tmp_path / name, feeds[-1]))
    ssb(tmp_path / "good", "import", str(export(tmp_path / "ann")))
    ssb(tmp_path / "good", "notarise", feed)
    give(reader, log_of(tmp_path / "good", feeds[0]))
    assert told(reader, feed, keys[:1])[1] == ""
    for order in (keys, keys[::-1]):
        output, error = told(reader, feed, order)
        assert "vouched for  messages 1 to 3 of 3: notarised on" in output
        assert "disputed     messages 1 to 2 are not those notarised on" in output
        assert error == f"{feed}: not all statements about it agree with the 3 messages here"
    output, error = told(reader, feed, keys[1:])
    assert "disputed" in output
    assert "messages 1 to 3 of" in error
    assert told(reader, feed, keys, BEFORE)[0] == ""  # such a late statement says nothing


def export(path: Path) -> Path:
    file = path.with_name("export")
    file.write_text(ssb(path, "export")[0] + "\n")
    return file


def test_a_log_that_is_shorter_than_a_statement_is_told(tmp_path: Path) -> None:
    """It was cut by who gave it, or is damaged here."""
    ann, notary, reader = (tmp_path / name for name in ("ann", "notary", "reader"))
    feed = account_of(ann, 4)
    log = log_of(ann, feed)
    key, _ = ssb(notary, "suite")
    for count in (2, 4):
        give(notary, log[:count])
        ssb(notary, "notarise", feed)
    ssb(reader, "publish", "I read")
    give(reader, [*log[:2], *log_of(notary, key_file.read(notary / "secret").ref)])
    output, error = told(reader, feed, [key])
    assert "vouched for  messages 1 to 2 of 2: notarised on" in output
    assert "missing      messages 1 to 4 were notarised on" in output
    assert output.endswith("; 2 are here")
    assert error == f"{feed}: not all statements about it agree with the 2 messages here"
    give(reader, log)
    assert told(reader, feed, [key])[1] == ""
    damage(reader / "feeds.sqlite", b"message 3")
    output, error = told(reader, feed, [key])
    assert "vouched for  messages 1 to 2 of 4: notarised on" in output
    assert "missing" not in output
    assert "damaged      message 4: run the peer" in output
    assert error == f"messages 3 to 4 of {feed} may be forged: nothing vouches for them"


def damage(store: Path, text: bytes) -> None:
    """Change a text in a file that is not open."""
    raw = store.read_bytes()
    assert text in raw
    store.write_bytes(raw.replace(text, text[::-1]))


def test_a_feed_with_a_second_key_ends_in_favour_of_one_with_a_second_key(tmp_path: Path) -> None:
    ann, new = tmp_path / "ann", tmp_path / "new"
    feed = account_of(ann, 1)
    ssb(ann, "suite")
    output, error = ssb(ann, "end", "--successor", str(new))
    assert (
        f"{new}: has no second key, and this feed has one; make one with `feednet ssb --path {new} suite`"
        == error
    )
    assert (output, new.exists(), len(log_of(ann, feed))) == ("", False, 2)
    ssb(new, "suite")
    assert ssb(ann, "end", "--successor", str(new))[1] == ""


def test_follows_and_names_that_were_countersigned_go_on_with_the_successor(tmp_path: Path) -> None:
    ann, new = tmp_path / "ann", tmp_path / "new"
    account_of(ann, 1)
    ssb(ann, "suite")
    ssb(ann, "follow", AUTHOR.ref)
    ssb(new, "suite")
    assert ssb(ann, "end", "--successor", str(new))[1] == ""
    said = [message.content for message in log_of(new, key_file.read(new / "secret").ref)]
    assert AUTHOR.ref in [one["contact"] for one in said if one["type"] == "contact"]


@pytest.mark.parametrize("call", ["why", "countersigned"])
def test_a_key_that_a_returned_log_declares_is_missed_at_once(tmp_path: Path, call: str) -> None:
    """The account has been asked before: its log had no declaration then."""
    ann, old = tmp_path / "ann", tmp_path / "old"
    feed = account_of(ann, 1)
    shutil.copytree(ann, old)
    ssb(ann, "suite")
    log = log_of(ann, feed)
    with closing(Account(old)) as account:
        assert account.own_key.why() == ""
        assert account.own_key.countersigned(POST, 2) is POST
        account.feeds.append(log[1:], 1)
        assert "secret.ed448: lost" in account.own_key.why()
        with pytest.raises(StoreError, match=r"secret\.ed448: lost"):
            account.own_key.countersigned(POST, 2)


def test_a_key_whose_making_was_interrupted_is_made_by_the_next_try(tmp_path: Path) -> None:
    ann = tmp_path / "ann"
    account_of(ann, 2)
    ssb(ann, "suite")
    fresh = tmp_path / "fresh"
    feed = account_of(fresh, 2)
    shutil.copy(ann / "secret.ed448", fresh / "secret.ed448")  # the process ended before the rest was written
    made = read_key(ann / "secret.ed448")
    assert made is not None
    assert ssb(fresh, "suite") == (made.public.text, "")
    assert ssb(fresh, "publish", "countersigned")[1] == ""
    assert len(log_of(fresh, feed)) == 4


def test_another_key_in_the_file_is_told(tmp_path: Path) -> None:
    ann, ben = tmp_path / "ann", tmp_path / "ben"
    for path in (ann, ben):
        account_of(path, 1)
        ssb(path, "suite")
    shutil.copy(ben / "secret.ed448", ann / "secret.ed448")
    for words in (("publish", "by the wrong key"), ("suite",)):
        assert "the second key vouches only for messages" in ssb(ann, *words)[1]
    assert "the second key vouches only for messages" in ssb(ann, "status")[0]


def test_an_author_who_declares_many_keys_costs_a_reader_no_more_than_some() -> None:
    keys = [PrivateKey.from_seed(SECOND, bytes([number]) * 57) for number in range(MOST_KEYS + 9)]
    written = CountersignedLog(AUTHOR)
    log = [written.write(key, declaration(key.public), number) for number, key in enumerate(keys, start=1)]
    key = PrivateKey.from_seed(SECOND, b"k" * 57)
    note = notarise(AUTHOR.ref, SECOND, (message.encoded for message in log))
    notary = Identity.from_seed(b"n" * 32)
    said = Message.create(notary, None, countersign(key, notary.ref, 1, 1, note, EMPTY), 1)
    read: list[PublicKey] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ssb.suites.notary.Reader", lambda key: read.append(key) or Reader(key))
        verdict = vouch(log, list(statements([said], key.public)), 50)
    assert verdict.vouched == len(keys)
    assert len(read) == MOST_KEYS + 1  # the notary's own
