"""Deliberate bugs of private groups, which tests of `tests/ssb/` must find."""

from typing import Any

from mutants.patches import Mutants, Patch, instead
from ssb.groups import envelope
from ssb.groups.epoch import Epoch
from ssb.groups.groups import Group, Groups
from ssb.groups.writing import Writer


def _anybody_adds(original: Any) -> Any:
    def added(self: Epoch) -> frozenset[str]:
        return frozenset([self.author, *(feed for _, feeds in self._additions for feed in feeds)])

    return property(added)


def _anybody_excludes(original: Any) -> Any:
    return property(lambda self: frozenset(feed for _, feeds in self._exclusions for feed in feeds))


def _unbound(original: Any, context: envelope.Context, *labels: str) -> bytes:
    return original(envelope.Context(context.feed, bytes(34)), *labels)


def _only_from_now(original: Any, self: Groups, root: str) -> Any:
    outside = self._outside
    self._outside = {id_: message for id_, message in outside.items() if id_ == root}
    found = original(self, root)
    self._outside |= {id_: message for id_, message in outside.items() if id_ != root}
    return found


def _unless_excluded(original: Any, self: Groups, epoch: Epoch) -> frozenset[str]:
    found = original(self, epoch)
    return found if all(epoch.author in self._epochs[root].members for root in found) else frozenset()


def _of_any_group(original: Any, self: Groups, epoch: Epoch) -> frozenset[str]:
    known = epoch.previous & self._epochs.keys()
    return known if all(epoch.author in self._epochs[root].added for root in known) else frozenset()


MUTANTS: Mutants = {
    "strangers with the key add members": (Patch(Epoch, "added", _anybody_adds),),
    "strangers with the key exclude members": (Patch(Epoch, "excluded", _anybody_excludes),),
    "strangers go on with a group": (
        instead(Groups, "_before", lambda original, self, epoch: epoch.previous & self._epochs.keys()),
    ),
    "the key stays when a member is removed": (
        instead(Writer, "_go_on", lambda original, self, group, members: group.tips[0]),
    ),
    "of two epochs any counts": (
        Patch(Group, "current", lambda original: property(lambda self: self.tips[0] if self.tips else None)),
    ),
    "the largest key counts": (
        Patch(
            Group,
            "current",
            lambda original: property(
                lambda self: max(
                    (each for each in self.tips if each.added == self.members),
                    key=lambda each: each.key.secret,
                    default=None,
                )
            ),
        ),
    ),
    "an epoch with a removed reader is written in": (
        Patch(
            Group,
            "current",
            lambda original: property(
                lambda self: min(
                    (each for each in self.tips if each.members == self.members),
                    key=lambda each: each.key.secret,
                    default=None,
                )
            ),
        ),
    ),
    "an epoch follows none whose later members exclude its author": (
        instead(Groups, "_before", _unless_excluded),
    ),
    "an epoch joins two groups": (instead(Groups, "_before", _of_any_group),),
    "what came before a key is not opened with it": (instead(Groups, "_begin", _only_from_now),),
    "an envelope opens behind any message": (instead(envelope, "_use", _unbound),),
}
"""Bugs by name."""
