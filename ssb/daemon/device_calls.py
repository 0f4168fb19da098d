"""Calls about the devices of one identity: invite, join, list, remove and end.

Between invitation and membership there are two steps that need no decision: the inviting device hands the
fusion's key to the one that has consented, and that one proves that it has the key. Each call takes the steps
that are due, and so does a running peer (`proceed`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ssb.applications.fusion import (
    ENTRUST,
    MOST_DEVICES,
    Consent,
    Fusion,
    Fusions,
    begin_content,
    consent_content,
    entrust_content,
    invite_content,
    key_in,
    proof_content,
    tombstone_content,
)
from ssb.canonical import Value
from ssb.daemon.account import Account
from ssb.graph import CONTACT
from ssb.groups.envelope import Key
from ssb.keys import Identity, parse_feed
from ssb.message import Message
from ssb.transport.calls import not_allowed
from ssb.uri import plain


class DeviceCalls:
    """The calls; they raise ValueError, with a line for the user, and StoreError.

    Args:
        account: the user's.
        write: publishes a content.
        clock: the time, ms since 1970.
    """

    def __init__(
        self,
        account: Account,
        write: Callable[[Mapping[str, Any] | str], Message],
        clock: Callable[[], float],
    ) -> None:
        self._account = account
        self._write = write
        self._clock = clock
        self._me = account.identity.ref
        self._tried: set[tuple[str, str]] = set()  # steps: the fusion's root, and the consent

    def answer(self, name: str, arguments: Sequence[Value]) -> Value:
        """Answer a call of form async."""
        with suppress(ValueError, OSError):  # of another step than the user's
            self.proceed()
        match name, list(arguments):
            case "invite", [str() as feed]:
                return self._invite(_checked(feed))
            case "join", [str() as feed, bool() as declines]:
                return self._join(_checked(feed), declines=declines)
            case "remove", [str() as feed, str() as reason]:
                return self._remove(_checked(feed), reason)
            case "end", [str() as reason]:
                return self._end(self._living(), reason)
            case "list", [str() as feed]:
                return self._list(_checked(feed))
        raise ValueError(not_allowed(("devices", name)))

    def proceed(self) -> bool:
        """Take the steps that are due; return whether the feed can be written to, and so none is left.

        Each step is taken once: one without effect is not repeated, as no message can be taken back. Raises
        ValueError and StoreError for a step that failed; the others are left then.
        """
        account = self._account
        if account.why() or self._me in account.feeds.ends() or account.merged.fork_of(self._me):
            return False
        while (step := self._due()) is not None:
            step()
        return True

    @property
    def _fusions(self) -> Fusions:
        return self._account.views.fusions

    def _seal(self, content: Mapping[str, Any], keys: Sequence[Key]) -> Message:
        return self._write(self._account.sealed(content, self._clock(), keys))

    def _due(self) -> Callable[[], Message] | None:
        """Return a step that is due, and count it as tried; None if none is due."""
        for fusion in self._fusions.concerning(self._me):
            for consent in sorted(fusion.consents):
                is_own = consent.feed == self._me
                is_asked = is_own or (self._me, consent.feed) in fusion.invites
                if not is_asked or consent.feed in fusion.members:
                    continue
                if (fusion.root, consent.message) in self._tried:
                    continue
                key = self._key(fusion)
                if key is None:
                    break
                is_due = is_own or consent.feed not in self._entrusted(fusion)
                if is_due and (is_own or self._me in fusion.members):
                    self._tried.add((fusion.root, consent.message))
                    return partial(self._step, fusion, key, consent)
        return None

    def _step(self, fusion: Fusion, key: Identity, consent: Consent) -> Message:
        """Prove that this device has the key, or hand the key to a device that has consented."""
        if consent.feed == self._me:
            return self._write(proof_content(fusion, key, consent))
        keys = self._account.groups.keys_of([consent.feed, self._me])
        return self._seal(entrust_content(fusion, key, consent.feed, consent.message), keys)

    def _key(self, fusion: Fusion) -> Identity | None:
        """Return the secret key of a fusion, from a private message to this device."""
        found = (key_in(each.content, fusion) for each in self._account.groups.direct(ENTRUST))
        return next((key for key in found if key is not None), None)

    def _entrusted(self, fusion: Fusion) -> set[str]:
        """Return the feeds to which this device has handed the key of a fusion."""
        found: set[str] = set()
        for message, content, _ in self._account.groups.direct(ENTRUST):
            recipients = content.get("recps")
            if message.author == self._me and content.get("rootId") == fusion.root:
                found |= {str(each) for each in recipients} if isinstance(recipients, list) else set()
        return found

    def _living(self) -> list[Fusion]:
        return self._fusions.living(self._me)

    def _own(self) -> Fusion | None:
        """Return the fusion to which this device can admit others; None if there is none."""
        able = [fusion for fusion in self._living() if self._key(fusion) is not None]
        return max(able, key=lambda fusion: len(fusion.members), default=None)

    def _begin(self) -> Fusion:
        key = Identity.from_seed(self._account.random_bytes(32))
        root = self._write(begin_content(self._me, key)).id
        fusion = self._fusions.get(root)
        assert fusion is not None, "the content begins a fusion"
        self._seal(entrust_content(fusion, key, self._me, None), [self._account.groups.own])
        return fusion

    def _invite(self, feed: str) -> Value:
        devices = self._fusions.devices(self._me)
        if feed in devices:
            raise ValueError(
                f"{feed} is {'this device' if feed == self._me else 'a device of yours'} already"
            )
        if self._account.graph.is_blocked(feed):
            raise ValueError(f"you block {feed}: `feednet ssb follow --block --undo` ends that")
        self._account.groups.keys_of([feed])  # raises before anything is written
        fusion = self._own()
        asked = set() if fusion is None else {each for _, each in fusion.invites} | {fusion.founder}
        if len(asked | {feed, *devices}) > MOST_DEVICES:
            raise ValueError(f"an identity has at most {MOST_DEVICES} devices, those invited among them")
        if feed not in asked or fusion is None:
            fusion = fusion or self._begin()
            self._say(fusion, invite_content(fusion, self._me, [feed]))
        self._follow(feed)
        return fusion.root

    def _join(self, feed: str, *, declines: bool) -> Value:
        """Consent to what a feed, or another device of it, has invited to; return how far this is.

        The answers: "member", "consented", "declined", and "waiting" if no invitation is here.
        """
        me, others = self._me, {*self._fusions.devices(feed)} - {self._me}
        if not others:
            raise ValueError("this device cannot join itself: name the device that has invited it")
        if me in self._fusions.devices(feed):
            if declines:
                raise ValueError(
                    f"this device and {feed} are one identity already: `feednet ssb device end` ends that"
                )
            return "member"
        if not declines and len(self._fusions.devices(me)) > 1:
            raise ValueError(
                "this device belongs to an identity already: `feednet ssb device end` ends that one"
            )
        invited = [
            fusion
            for fusion in self._fusions.concerning(me)
            if any((other, me) in fusion.invites for other in others)
        ]
        has_consented = any(each.feed == me for fusion in invited for each in fusion.consents)
        if has_consented and declines:
            raise ValueError(
                "this device has consented already, and nothing takes that back: once it is a device of the "
                "identity, `feednet ssb device end` ends that"
            )
        if not declines:
            self._follow(feed)
        if has_consented:
            return "consented"
        if not invited:
            return "waiting"
        self._say(invited[-1], consent_content(invited[-1], me, declines=declines))
        return "declined" if declines else "consented"

    def _remove(self, feed: str, reason: str) -> Value:
        """End the fusions with a device, and invite the others to a new one, if there are others.

        A thief may have admitted so many feeds that they are no identity any more. Then those are invited
        that this device itself has invited, or follows. Returns the root of the new fusion or None, the feeds
        that are invited, and those that were in a fusion with the device, and are not invited.
        """
        if feed == self._me:
            raise ValueError("to take this device out, remove it on another device, or end the identity")
        ended = [fusion for fusion in self._living() if feed in fusion.members]
        if not ended:
            raise ValueError(f"{feed} is no device of yours")
        graph, me = self._account.graph, self._me
        together = {*self._fusions.devices(me)}.union(*(fusion.members for fusion in ended)) - {me, feed}
        others = {each for each in together if not graph.is_blocked(each)}
        if feed not in self._fusions.devices(me):
            asked = {other for fusion in self._living() for by, other in fusion.invites if by == me}
            known = [each for each in others if each in asked or graph.is_following(me, each)]
            first = sorted(known, key=lambda each: (each not in asked, each))
            others = {*first[: MOST_DEVICES - 1]}
        self._end(ended, reason)
        answer: dict[str, Value] = {"fusion": None, "invited": sorted(others)}
        if others:
            fusion = self._begin()
            self._say(fusion, invite_content(fusion, me, sorted(others)))
            answer["fusion"] = fusion.root
        return answer | {"left_out": sorted(together - others)}

    def _end(self, fusions: Sequence[Fusion], reason: str) -> Value:
        if not fusions:
            raise ValueError("this device belongs to no identity of several devices")
        for fusion in fusions:
            self._say(fusion, tombstone_content(fusion, self._me, self._clock(), reason))
        return True

    def _say(self, fusion: Fusion, content: Mapping[str, Any]) -> None:
        """Write a message about a fusion; raise ValueError if it has no effect."""
        message = self._write(content)
        if not fusion.is_valid(message.id):
            raise ValueError(
                f"the message {message.id} has no effect: the identity has too many invitations; "
                "`feednet ssb device end` ends it"
            )

    def _follow(self, feed: str) -> None:
        """Follow a device, so that peers that know no fusions replicate it, too."""
        if not self._account.graph.is_following(self._me, feed):
            self._write({"type": CONTACT, "contact": feed, "following": True})

    def _list(self, feed: str) -> Value:
        feed = feed or self._me
        namer = self._account.views.namer()
        devices = self._fusions.devices(feed)
        return {
            "devices": [*devices],
            "name": namer(feed),
            "fusions": [
                {
                    "root": fusion.root,
                    "id": fusion.id,
                    "members": sorted(fusion.members),
                    "invites": [[*pair] for pair in sorted(fusion.invites) if pair[1] not in fusion.members],
                    "consented": sorted({each.feed for each in fusion.consents} - fusion.members),
                }
                for fusion in self._fusions.concerning(feed)
            ],
        }


def _checked(feed: str) -> str:
    found = plain(feed)
    if found:
        parse_feed(found)
    return found
