"""Deliberate bugs of identities of several devices, which tests of `tests/ssb/` must find."""

from typing import Any

from mutants.patches import Mutants, Patch, instead, returns
from ssb.applications.fusion import Consent, Fusion, Fusions, _joined
from ssb.daemon.device_calls import DeviceCalls
from ssb.daemon.views import Views
from ssb.graph import Graph


def _anybody(original: Any, self: Fusion, message: Any, content: Any, before: Any) -> Any:
    members = before.members | ({message.author} if "members" not in content else set())
    after = original(self, message, content, before._replace(members=members))
    return None if after is None else after._replace(members=before.members | after.members - members)


def _unasked(original: Any, self: Fusion, message: Any, content: Any, before: Any) -> Any:
    given = Consent(message.author, str(content.get("consentId")))
    return original(self, message, content, before._replace(consents=before.consents | {given}))


MUTANTS: Mutants = {
    "strangers invite and end": (instead(Fusion, "_next", _anybody),),
    "no consent is needed": (instead(Fusion, "_next", _unasked),),
    "any proof counts": (Patch(Fusion, "_has_signed", returns(True)),),
    "an end is none beside other messages": (
        Patch(Fusion, "members", lambda _: property(lambda self: frozenset(self._members))),
    ),
    "a message is judged by all that came before it": (
        instead(
            Fusion,
            "_next",
            lambda original, self, message, content, before: original(
                self, message, content, _joined([state for state in self._known.values() if state])
            ),
        ),
    ),
    "nothing waits": (instead(Fusions, "_examine", lambda original, *args: original(*args) and None),),
    "statements of devices are apart": (instead(Graph, "unite", lambda original, self, identities: None),),
}

PEER_MUTANTS: Mutants = {
    "keys are not handed on": (Patch(DeviceCalls, "_due", returns(None)),),
    "each device has a name of its own": (
        Patch(
            Views,
            "namer",
            lambda _: lambda self: lambda feed: self.directory.name(feed, self._origin, self.graph.hops()),
        ),
    ),
    "invited feeds are not replicated": (Patch(Fusions, "invited", returns(set())),),
}
"""Bugs of peers, which stories of swarms must find."""
