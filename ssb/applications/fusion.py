"""The devices of one person: feeds with keys of their own, which a *fusion* declares to be one identity.

Two devices with one key fork their feed (Tarr et al., "Secure Scuttlebutt", ACM ICN 2019, section 6.3). So
each device has its own feed, and the feeds say in messages of type `fusion` that they belong together (Fusion
Identity Spec 1, draft; the members of the contents are those of that text):

- a feed begins a fusion (`fusion/init`), and is its first member. The fusion has a key pair of its own;
- a member invites a feed (`fusion/invite`);
- that feed consents, or declines (`fusion/consent`);
- the member sends it the fusion's secret key, in a private message (`fusion/entrust`);
- the feed signs with that key (`fusion/proof-of-key`), and is a member from then on;
- a member ends the fusion for good (a `tombstone`). Nobody can take a key back, so the devices that remain
  begin another fusion when one is removed.

A message names the newest ones of its fusion that its author knew (`tangles.fusion.previous`). Whether it is
valid follows from those, and from those that they name, alone: so peers with the same messages see the same
members, in whatever order the messages came. A valid tombstone ends a fusion whatever was written beside it.

Two differences from the text. There, several fusions with one `id` all end, so any stranger could end a
fusion by copying its id; here its first message identifies a fusion. And an identity
has at most MOST_DEVICES feeds, as each follow of one replicates all.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from itertools import islice
from typing import Any, Final, NamedTuple

from ssb.keys import (
    Identity,
    InvalidRef,
    decode_base64,
    is_feed,
    is_message,
    parse_signature,
    signature_text,
    verify,
)
from ssb.message import Message

FUSION: Final = "fusion"
"""The type of all messages but those that hand on the secret key."""
ENTRUST: Final = "fusion/entrust"
"""The type of a private message with the secret key."""

MOST_DEVICES: Final = 16
"""Most feeds of one identity; a larger set of feeds is no identity."""
MOST_INVITED: Final = 500
"""Feeds that a peer replicates because they are invited to the identity of another one."""

_INIT, _INVITE, _CONSENT, _PROOF = "fusion/init", "fusion/invite", "fusion/consent", "fusion/proof-of-key"
_URI: Final = "ssb:identity/fusion/"
_SECRET: Final = ".ed25519"
_MOST_PREVIOUS: Final = 100


class Consent(NamedTuple):
    """A feed's consent to be a member, and the message that says so."""

    feed: str
    message: str


class _State(NamedTuple):
    """A fusion as the author of a message knew it, after that message."""

    invites: frozenset[tuple[str, str]]  # member and invited feed
    consents: frozenset[Consent]
    members: frozenset[str]
    is_ended: bool = False

    @property
    def invited(self) -> frozenset[str]:
        return frozenset(feed for _, feed in self.invites)


class Fusion:
    """A fusion, and its valid messages.

    Attributes:
        root: reference of the message that began it.
        id: its URI, `ssb:identity/fusion/...`, which has its public key.
        key: that key, 32 bytes.
        founder: its first member.
    """

    def __init__(self, root: str, founder: str, id_: str, key: bytes) -> None:
        self.root = root
        self.founder = founder
        self.id = id_
        self.key = key
        self._state = _State(frozenset(), frozenset(), frozenset({founder}))
        # What each message knew; None for one that is not valid.
        self._known: dict[str, _State | None] = {root: self._state}
        self._heads = {root}

    @property
    def members(self) -> frozenset[str]:
        """The feeds that are one identity: those that were ever members, until the fusion ends."""
        return frozenset() if self._state.is_ended else self._state.members

    @property
    def is_ended(self) -> bool:
        """Whether a member has ended it."""
        return self._state.is_ended

    @property
    def invites(self) -> frozenset[tuple[str, str]]:
        """All invitations: the member, and the invited feed."""
        return self._state.invites

    @property
    def consents(self) -> frozenset[Consent]:
        """All consents."""
        return self._state.consents

    @property
    def heads(self) -> list[str]:
        """The valid messages that no other one names: those that the next message names."""
        return sorted(self._heads)

    def knows(self, message: str) -> bool:
        """Whether a message was examined, valid or not."""
        return message in self._known

    def take(self, message: Message, previous: Collection[str]) -> None:
        """Examine a message; all in `previous` have been examined before."""
        past = [state for each in previous if (state := self._known[each]) is not None]
        after = None
        if len(past) == len(previous) and isinstance(message.content, dict):
            after = self._next(message, message.content, _joined(past))
        self._known[message.id] = after
        if after is not None:
            self._heads -= set(previous)
            self._heads.add(message.id)
            self._state = _joined([self._state, after])

    def _next(self, message: Message, content: dict[str, Any], before: _State) -> _State | None:
        """Return the state after a message, None if it is not valid."""
        author, kind = message.author, content.get("subtype")
        if "tombstone" in content:
            is_valid = author in before.members and isinstance(content["tombstone"], dict)
            return before._replace(is_ended=True) if is_valid else None
        if before.is_ended:
            return None
        if kind == _INVITE and author in before.members:
            new = _feeds(content, "invited")
            invites = before.invites | {(author, feed) for feed in new}
            after = before._replace(invites=invites)
            is_valid = bool(new) and author not in new and len(after.invited) < MOST_DEVICES
            return after if is_valid else None
        has_consented = any(consent.feed == author for consent in before.consents)
        if kind == _CONSENT and author in before.invited - before.members and not has_consented:
            if _feeds(content, "consented") == {author}:
                return before._replace(consents=before.consents | {Consent(author, message.id)})
            return before if content.get("consented") == {author: 0} else None
        if kind == _PROOF and _feeds(content, "members") == {author}:
            given = content.get("consentId")
            is_valid = isinstance(given, str) and Consent(author, given) in before.consents
            if is_valid and self._has_signed(content.get("proofOfKey"), str(given)):
                return before._replace(members=before.members | {author})
        return None

    def _has_signed(self, proof: object, consent: str) -> bool:
        try:
            signature = parse_signature(proof) if isinstance(proof, str) else b""
        except InvalidRef:
            return False
        return verify(self.key, signature, _proved(consent))


class Fusions:
    """All fusions, computed from messages in any order; a message added again changes nothing."""

    def __init__(self) -> None:
        self._fusions: dict[str, Fusion] = {}
        # By the message that they lack, and by their own references.
        self._waiting: defaultdict[str, dict[str, Message]] = defaultdict(dict)
        self._of: defaultdict[str, set[str]] = defaultdict(set)  # feed -> roots of its living fusions
        self._devices: dict[str, tuple[str, ...]] = {}  # of each feed that is not alone

    def add(self, message: Message) -> dict[str, frozenset[str]]:
        """Add a message; return the feeds whose identity has changed, each with all devices it has now."""
        changed: dict[str, frozenset[str]] = {}
        ahead = [message]
        while ahead:
            each = ahead.pop()
            lacks = self._examine(each, changed)
            if lacks is None:
                ahead += self._waiting.pop(each.id, {}).values()
            else:
                self._waiting[lacks][each.id] = each
        return changed

    def get(self, root: str) -> Fusion | None:
        """Return a fusion by the message that began it."""
        return self._fusions.get(root)

    def living(self, feed: str) -> list[Fusion]:
        """Return the fusions that a feed is a member of and nobody has ended, in order of their roots."""
        return [self._fusions[root] for root in sorted(self._of.get(feed, ()))]

    def every(self) -> list[Fusion]:
        """Return all fusions, ended ones among them, in order of their roots."""
        return [fusion for _, fusion in sorted(self._fusions.items())]

    def devices(self, feed: str) -> tuple[str, ...]:
        """Return all feeds of a feed's identity, founders of fusions first; itself alone if it is in none."""
        return self._devices.get(feed, (feed,))

    def invited(self, feeds: Set[str]) -> set[str]:
        """Return the feeds that are invited to the identities of some feeds, at most MOST_INVITED.

        They say in their own feeds that they consent: who does not replicate these never hears of it.
        """
        living = (fusion for fusion in self.every() if not fusion.members.isdisjoint(feeds))
        found = (feed for each in living for _, feed in sorted(each.invites) if feed not in each.members)
        return set(islice(dict.fromkeys(found), MOST_INVITED))

    def identities(self) -> dict[str, frozenset[str]]:
        """Return the devices of each feed that is not alone."""
        return {feed: frozenset(devices) for feed, devices in self._devices.items()}

    def _examine(self, message: Message, changed: dict[str, frozenset[str]]) -> str | None:
        """Let a message take effect; return the message that it lacks, None if it lacks none."""
        content = message.content
        if not isinstance(content, dict) or content.get("type") != FUSION:
            return None
        root, previous = _place(content)
        if root is None:
            fusion = _begun(message, content)
            if fusion is not None and message.id not in self._fusions:
                self._fusions[message.id] = fusion
                self._of[message.author].add(message.id)
            return None
        known = self._fusions.get(root)
        if known is None:
            return root
        if known.knows(message.id) or not previous:
            return None
        missing = next((each for each in previous if not known.knows(each)), None)
        if missing is not None:
            return missing
        before = known.members
        known.take(message, previous)
        if known.members != before:
            self._unite(known, before, changed)
        return None

    def _unite(self, fusion: Fusion, before: frozenset[str], changed: dict[str, frozenset[str]]) -> None:
        affected = {device for feed in before | fusion.members for device in self._together(feed)}
        for feed in before - fusion.members:
            self._of[feed].discard(fusion.root)
        for feed in fusion.members:
            self._of[feed].add(fusion.root)
        affected |= {device for feed in affected for device in self._together(feed)}
        founders = {self._fusions[root].founder for feed in affected for root in self._of.get(feed, ())}
        for feed in affected:
            together = self._together(feed)
            devices = tuple(sorted(together, key=lambda each: (each not in founders, each)))
            if 1 < len(devices) <= MOST_DEVICES:
                self._devices[feed] = devices
            else:
                self._devices.pop(feed, None)
            changed[feed] = frozenset(self.devices(feed))

    def _together(self, feed: str) -> set[str]:
        """Return a feed and all that living fusions connect with it."""
        found, ahead = {feed}, [feed]
        while ahead:
            for root in self._of.get(ahead.pop(), ()):
                new = self._fusions[root].members - found
                found |= new
                ahead += new
        return found


def begin_content(author: str, key: Identity) -> dict[str, Any]:
    """Return the content that begins a fusion with a key pair, new and used for nothing else."""
    id_ = _URI + key.ref[1:].removesuffix(_SECRET).translate(_TO_URL)
    return _content(_INIT, None, None) | {"id": id_, "members": {author: 1}}


def invite_content(fusion: Fusion, feeds: Iterable[str]) -> dict[str, Any]:
    """Return the content by which a member invites feeds."""
    return _content(_INVITE, fusion.root, fusion.heads) | {"invited": dict.fromkeys(feeds, 1)}


def consent_content(fusion: Fusion, feed: str, *, declines: bool = False) -> dict[str, Any]:
    """Return the content by which an invited feed consents, or declines."""
    return _content(_CONSENT, fusion.root, fusion.heads) | {"consented": {feed: 0 if declines else 1}}


def entrust_content(fusion: Fusion, key: Identity, feed: str, consent: str | None) -> dict[str, Any]:
    """Return the content that hands the secret key to a feed; to be sealed for it.

    `consent` is the message by which the feed has consented, None for the founder's own copy.
    """
    content = {
        "type": ENTRUST,
        "secretKey": key.secret().removesuffix(_SECRET),
        "rootId": fusion.root,
        "recps": [fusion.id, feed],
    }
    return content if consent is None else content | {"consentId": consent}


def proof_content(fusion: Fusion, key: Identity, consent: Consent) -> dict[str, Any]:
    """Return the content by which a feed that has the secret key becomes a member."""
    proof = signature_text(key.sign(_proved(consent.message)))
    content = _content(_PROOF, fusion.root, fusion.heads)
    return content | {"members": {consent.feed: 1}, "consentId": consent.message, "proofOfKey": proof}


def tombstone_content(fusion: Fusion, now_ms: float, reason: str) -> dict[str, Any]:
    """Return the content that ends a fusion; `now_ms` since 1970."""
    content = _content(None, fusion.root, fusion.heads)
    return content | {"tombstone": {"set": {"date": round(now_ms), "reason": reason}}}


def key_in(content: Mapping[str, Any], fusion: Fusion) -> Identity | None:
    """Return the key pair in an entrusting content; None if it is not the fusion's."""
    secret = content.get("secretKey")
    if content.get("type") != ENTRUST or content.get("rootId") != fusion.root or not isinstance(secret, str):
        return None
    try:
        key = Identity.from_secret(secret + _SECRET)
    except InvalidRef:
        return None
    return key if key.public_key == fusion.key else None


_TO_URL: Final = str.maketrans("+/", "-_")
_FROM_URL: Final = str.maketrans("-_", "+/")


def _content(kind: str | None, root: str | None, previous: list[str] | None) -> dict[str, Any]:
    content: dict[str, Any] = {"type": FUSION} if kind is None else {"type": FUSION, "subtype": kind}
    return content | {"tangles": {FUSION: {"root": root, "previous": previous}}}


def _place(content: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    """Return a content's root, None for one that is a root itself, and what it names as previous."""
    tangles = content.get("tangles")
    place = tangles.get(FUSION) if isinstance(tangles, dict) else None
    match place:
        case {"root": str() as root, "previous": list() as previous}:
            is_right = is_message(root) and len(previous) <= _MOST_PREVIOUS and all(map(is_message, previous))
            return root, [*dict.fromkeys(previous)] if is_right else []
    return None, []


def _begun(message: Message, content: Mapping[str, Any]) -> Fusion | None:
    """Return the fusion that a message begins, if it does."""
    id_, tangles = content.get("id"), content.get("tangles")
    is_root = isinstance(tangles, dict) and tangles.get(FUSION) == {"root": None, "previous": None}
    if not is_root or content.get("subtype") != _INIT or _feeds(content, "members") != {message.author}:
        return None
    if not isinstance(id_, str) or not id_.startswith(_URI):
        return None
    try:
        key = decode_base64(id_.removeprefix(_URI).translate(_FROM_URL))
    except InvalidRef:
        return None
    return Fusion(message.id, message.author, id_, key) if len(key) == 32 else None


def _feeds(content: Mapping[str, Any], name: str) -> set[str]:
    """Return the feeds in a member of a content, each of which has the value 1; none if it is malformed."""
    given = content.get(name)
    if not isinstance(given, dict):
        return set()
    is_right = all(is_feed(feed) and value == 1 and value is not True for feed, value in given.items())
    return set(given) if is_right else set()


def _joined(states: Collection[_State]) -> _State:
    """Return the union of states."""
    return _State(
        frozenset().union(*(state.invites for state in states)),
        frozenset().union(*(state.consents for state in states)),
        frozenset().union(*(state.members for state in states)),
        any(state.is_ended for state in states),
    )


def _proved(consent: str) -> bytes:
    """The text that the fusion's key signs."""
    return f"{consent}{_PROOF}".encode()
