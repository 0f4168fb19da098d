"""Any bytes as keys, hashes, states and contents of the second suite: each has one form; one key proves."""

from collections.abc import Callable

from ssb.canonical import InvalidJson, parse
from ssb.ending import end_content
from ssb.keys import Identity, InvalidRef
from ssb.message import InvalidMessage, Message
from ssb.suites.countersignature import (
    EMPTY,
    NoProof,
    check,
    countersign,
    declaration,
    declared_by,
    succession,
    successor_key,
)
from ssb.suites.notary import notarise, statements
from ssb.suites.own_key import Written
from ssb.suites.suite import SECOND, PrivateKey, PublicKey, hash_text, parse_hash
from testbed.verify.fuzz.subjects.wire import expect

AUTHOR, HEIR = (Identity.from_seed(bytes([number]) * 32) for number in (11, 12))
KEY = PrivateKey.from_seed(SECOND, bytes(SECOND.seed_bytes))
CONTENTS = [
    countersign(KEY, AUTHOR.ref, 1, 0.0, content, EMPTY)
    for content in (declaration(KEY.public), notarise(HEIR.ref, SECOND, [b"text"]))
]
"""What the key has countersigned: its declaration, and a statement about another log."""
END = end_content(AUTHOR.ref, HEIR) | succession(AUTHOR.ref, HEIR.ref, KEY)
"""The end of the author's feed, in favour of one with the key."""
TEXTS = (KEY.public.text, KEY.secret(), hash_text(SECOND, EMPTY), Written().then(b"1").encode().decode())
"""A key, a secret key, a hash, and the state of a key."""

_FORMS: tuple[Callable[[str], str], ...] = (
    lambda text: PublicKey.parse(text).text,
    lambda text: PrivateKey.from_secret(text).secret(),
    lambda text: hash_text(SECOND, parse_hash(SECOND, text)),
    lambda text: Written.decode(text.encode()).encode().decode(),
)


def check_suites(data: bytes) -> None:
    """Read bytes as each of these; raise Finding, or whatever should not be raised."""
    text = data.decode(errors="replace")
    for form in _FORMS:
        try:
            expect("a text has two forms", holds=form(text) == text)
        except InvalidRef:
            continue
    try:
        value = parse(text)
        content = value if isinstance(value, dict) else {}
        message = Message.create(AUTHOR, None, content, 0.0)
    except (InvalidJson, InvalidMessage):
        return
    try:
        check(KEY.public, message)
    except NoProof:
        is_proved = False
    else:
        is_proved = True
    expect("a content counts that nobody has countersigned", holds=is_proved == (message.content in CONTENTS))
    expect("a key is declared by another", holds=declared_by(message, KEY.public) is None or is_proved)
    expect("a statement counts without a proof", holds=is_proved or not [*statements([message], KEY.public)])
    names_key = successor_key(message) == KEY.public
    expect("a key has not consented", holds=not names_key or content.get("suite") == END["suite"])
