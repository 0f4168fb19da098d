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

Differences from the text. There, several fusions with one `id` all end, so any stranger could end a
fusion by copying its id; here its first message identifies a fusion. An identity has at most MOST_DEVICES
feeds, as each follow of one replicates all. And hostile messages cost little: the messages that one message
leads back to invite fewer feeds than that, the newest MOST_BEGUN fusions of a founder count, and a message of
this peer names at most MOST_NAMED others.
"""

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
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
from ssb.uri import FROM_URL, TO_URL

FUSION: Final = "fusion"
"""The type of all messages but those that hand on the secret key."""
ENTRUST: Final = "fusion/entrust"
"""The type of a private message with the secret key."""

MOST_DEVICES: Final = 16
"""Most feeds of one identity; a larger set of feeds is no identity."""
MOST_INVITED: Final = 500
"""Feeds that a peer replicates because they are invited to identities; of one inviting feed, and of one
fusion, at most MOST_DEVICES."""
MOST_BEGUN: Final = 16
"""Fusions of one founder that count: the newest ones."""
MOST_NAMED: Final = 32
"""Heads that a message of this peer names. Readers accept more of other authors."""

_INIT, _INVITE, _CONSENT, _PROOF = "fusion/init", "fusion/invite", "fusion/consent", "fusion/proof-of-key"
_URI: Final = "ssb:identity/fusion/"
_SECRET: Final = ".ed25519"
_MOST_PREVIOUS: Final = 100
_MOST_CONSENTS: Final = 4  # of one feed, in what a message leads back to


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

    def has_room(self, new: Set[str] = frozenset()) -> bool:
        """Whether a message may lead back to this, and to invitations of some more feeds."""
        of_each = Counter(consent.feed for consent in self.consents)
        most = max(of_each.values(), default=0)
        return len(self.invited | new) < MOST_DEVICES and most <= _MOST_CONSENTS


_ENDED: Final = _State(frozenset(), frozenset(), frozenset(), is_ended=True)


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
        self._members = {founder}
        self._invites: set[tuple[str, str]] = set()
        self._consents: dict[str, Consent] = {}
        self._is_ended = False
        # What each message knew; None for one that is not valid.
        self._known: dict[str, _State | None] = {root: _State(frozenset(), frozenset(), frozenset({founder}))}
        self._heads = {root: founder}  # the valid messages that no other one names, with their authors

    @property
    def members(self) -> frozenset[str]:
        """The feeds that are one identity: those that were ever members, until the fusion ends."""
        return frozenset() if self._is_ended else frozenset(self._members)

    @property
    def is_ended(self) -> bool:
        """Whether a member has ended it."""
        return self._is_ended

    @property
    def invites(self) -> Set[tuple[str, str]]:
        """All invitations: the member, and the invited feed; a current live view."""
        return self._invites

    @property
    def consents(self) -> frozenset[Consent]:
        """The consents, one of each feed: of several, the one with the lowest reference."""
        return frozenset(self._consents.values())

    def knows(self, message: str) -> bool:
        """Whether a message was examined, valid or not."""
        return message in self._known

    def is_valid(self, message: str) -> bool:
        """Whether a message is here, and is a valid one."""
        return self._known.get(message) is not None

    def previous(
        self, author: str, *, invited: Set[str] = frozenset(), consent: Consent | None = None
    ) -> list[str]:
        """Return the heads that an author's next message names: at most MOST_NAMED.

        Hostile authors can make any number of heads. So those come first from which the message's right
        follows (the consent that it proves, the author's membership, the invitation), then those by members,
        then those with the lowest references. Of a feed that is no member, one head is named. A head is left
        out if the message would then lead back to more feeds than a reader accepts, the newly invited ones
        among them.
        """

        def order(head: str) -> tuple[bool, bool, bool, bool, str]:
            state = self._known[head]
            assert state is not None, "a head is valid"
            return (
                consent is not None and consent not in state.consents,
                author not in state.members,
                author not in state.invited,
                self._heads[head] not in self._members,
                head,
            )

        named: list[str] = []
        total: _State | None = None
        answered: set[str] = set()
        heads = sorted(self._heads, key=order)
        for head in heads:
            by, state = self._heads[head], self._known[head]
            joined = _joined([each for each in (total, state) if each is not None])
            if by in answered or not joined.has_room(invited):
                continue
            named.append(head)
            total = joined
            if by not in self._members:
                answered.add(by)
            if len(named) == MOST_NAMED:
                break
        return sorted(named or heads[:1])

    def take(self, message: Message, previous: Collection[str]) -> set[tuple[str, str]]:
        """Examine a message, and return the new invitations; all in `previous` have been examined before."""
        past = [state for each in previous if (state := self._known[each]) is not None]
        after = None
        if len(past) == len(previous) and isinstance(message.content, dict):
            after = self._next(message, message.content, _joined(past))
        self._known[message.id] = after
        if after is None:
            return set()
        for each in previous:
            self._heads.pop(each, None)
        self._heads[message.id] = message.author
        new = set(after.invites - self._invites)
        self._invites |= new
        self._members |= after.members
        for consent in after.consents:
            self._consents[consent.feed] = min(consent, self._consents.get(consent.feed, consent))
        self._is_ended |= after.is_ended
        return new

    def _next(self, message: Message, content: dict[str, Any], before: _State) -> _State | None:
        """Return the state after a message, None if it is not valid."""
        if before.is_ended:
            return None
        if "tombstone" in content:
            is_valid = message.author in before.members and isinstance(content["tombstone"], dict)
            return _ENDED if is_valid else None
        after = self._going_on(message, content, before)
        return after if after is not None and after.has_room() else None

    def _going_on(self, message: Message, content: dict[str, Any], before: _State) -> _State | None:
        """Return the state after a message that ends nothing, None if its author may not say it."""
        author, kind = message.author, content.get("subtype")
        if kind == _INVITE and author in before.members:
            new = _feeds(content, "invited")
            invites = before.invites | {(author, feed) for feed in new}
            return before._replace(invites=invites) if new and author not in new else None
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
        self._begun: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)  # by founder, oldest first
        # Inviting feed -> root and invited feed, oldest first; and invited feed -> roots.
        self._asked: defaultdict[str, dict[tuple[str, str], None]] = defaultdict(dict)
        self._asking: defaultdict[str, set[str]] = defaultdict(set)

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

    def concerning(self, feed: str) -> list[Fusion]:
        """Return the living fusions that a feed is a member of or is invited to, in order of their roots."""
        roots = sorted(self._of.get(feed, set()) | self._asking.get(feed, set()))
        found = (self._fusions.get(root) for root in roots)
        return [fusion for fusion in found if fusion is not None and not fusion.is_ended]

    def devices(self, feed: str) -> tuple[str, ...]:
        """Return all feeds of a feed's identity, founders of fusions first; itself alone if it is in none."""
        return self._devices.get(feed, (feed,))

    def invited(self, hops: Mapping[str, int]) -> set[str]:
        """Return the feeds that are to be replicated because replicated ones invite them.

        They say in their own feeds that they consent: who does not replicate these never hears of it.
        At most MOST_DEVICES of one inviting feed, and of one fusion; and MOST_INVITED in all, those of the
        nearest feeds first.

        Args:
            hops: the distance of each replicated feed.
        """
        found: dict[str, None] = {}
        of_fusion: defaultdict[str, set[str]] = defaultdict(set)
        for by in sorted(self._asked.keys() & hops.keys(), key=lambda feed: (hops[feed], feed)):
            for root, feed in self._open(by):
                if len(of_fusion[root] | {feed}) <= MOST_DEVICES:
                    of_fusion[root].add(feed)
                    found[feed] = None
            if len(found) >= MOST_INVITED:
                break
        return set(islice(found, MOST_INVITED))

    def _open(self, by: str) -> list[tuple[str, str]]:
        """Return the oldest open invitations of a feed, as roots and invited feeds; forget those before."""
        asked, open_, closed = self._asked[by], [], []
        for each in asked:
            root, feed = each
            fusion = self._fusions.get(root)
            if fusion is None or fusion.is_ended or feed in fusion.members:
                closed.append(each)
                continue
            open_.append(each)
            if len(open_) == MOST_DEVICES:
                break
        for each in closed:
            del asked[each]
        return open_

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
                self._begin(fusion, message.sequence, changed)
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
        for by, feed in sorted(known.take(message, previous)):
            self._asked[by][root, feed] = None
            self._asking[feed].add(root)
        if known.members != before:
            self._unite(root, before, known.members, changed)
        return None

    def _begin(self, fusion: Fusion, sequence: int, changed: dict[str, frozenset[str]]) -> None:
        """Add a fusion; the oldest one of its founder counts no more if it has too many."""
        begun = self._begun[fusion.founder]
        insort(begun, (sequence, fusion.root))
        self._fusions[fusion.root] = fusion
        self._of[fusion.founder].add(fusion.root)
        if len(begun) > MOST_BEGUN:
            _, oldest = begun.pop(0)
            self._unite(oldest, self._fusions[oldest].members, frozenset(), changed)
            del self._fusions[oldest]

    def _unite(
        self, root: str, before: frozenset[str], after: frozenset[str], changed: dict[str, frozenset[str]]
    ) -> None:
        """Compute the identities again that a change of a fusion's members concerns."""
        affected = self._together(before | after)
        for feed in before - after:
            self._of[feed].discard(root)
        for feed in after:
            self._of[feed].add(root)
        rest = self._together(affected)
        while rest:
            together = self._together({next(iter(rest))})
            rest -= together
            founders = {self._fusions[each].founder for feed in together for each in self._of.get(feed, ())}
            devices = tuple(sorted(together, key=lambda each: (each not in founders, each)))
            for feed in together:
                if 1 < len(devices) <= MOST_DEVICES:
                    self._devices[feed] = devices
                else:
                    self._devices.pop(feed, None)
                changed[feed] = frozenset(self.devices(feed))

    def _together(self, feeds: Set[str]) -> set[str]:
        """Return some feeds and all that living fusions connect with them."""
        found, ahead = set(feeds), list(feeds)
        seen: set[str] = set()
        while ahead:
            for root in self._of.get(ahead.pop(), set()) - seen:
                seen.add(root)
                new = self._fusions[root].members - found
                found |= new
                ahead += new
        return found


def begin_content(author: str, key: Identity) -> dict[str, Any]:
    """Return the content that begins a fusion with a key pair, new and used for nothing else."""
    id_ = _URI + key.ref[1:].removesuffix(_SECRET).translate(TO_URL)
    return _content(_INIT, None, None) | {"id": id_, "members": {author: 1}}


def invite_content(fusion: Fusion, author: str, feeds: Iterable[str]) -> dict[str, Any]:
    """Return the content by which a member invites feeds."""
    invited = dict.fromkeys(feeds, 1)
    previous = fusion.previous(author, invited=invited.keys())
    return _content(_INVITE, fusion.root, previous) | {"invited": invited}


def consent_content(fusion: Fusion, feed: str, *, declines: bool = False) -> dict[str, Any]:
    """Return the content by which an invited feed consents, or declines."""
    content = _content(_CONSENT, fusion.root, fusion.previous(feed))
    return content | {"consented": {feed: 0 if declines else 1}}


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
    content = _content(_PROOF, fusion.root, fusion.previous(consent.feed, consent=consent))
    return content | {"members": {consent.feed: 1}, "consentId": consent.message, "proofOfKey": proof}


def tombstone_content(fusion: Fusion, author: str, now_ms: float, reason: str) -> dict[str, Any]:
    """Return the content by which a member ends a fusion; `now_ms` since 1970."""
    content = _content(None, fusion.root, fusion.previous(author))
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
        key = decode_base64(id_.removeprefix(_URI).translate(FROM_URL))
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


def _joined(states: Sequence[_State]) -> _State:
    """Return the union of states."""
    first = states[0] if states else None
    if first is not None and all(state is first for state in states):
        return first
    return _State(
        frozenset().union(*(state.invites for state in states)),
        frozenset().union(*(state.consents for state in states)),
        frozenset().union(*(state.members for state in states)),
        any(state.is_ended for state in states),
    )


def _proved(consent: str) -> bytes:
    """The text that the fusion's key signs."""
    return f"{consent}{_PROOF}".encode()
