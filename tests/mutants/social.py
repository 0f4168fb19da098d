"""Deliberate bugs of SSB-aware forwarders: what stories of people must find."""

from typing import Any

from mutants.patches import Mutants, Patch, instead, returns
from ssb.message import Message
from ssb_over_ndn.social import receivers
from ssb_over_ndn.social.community import Community
from ssb_over_ndn.social.flood import SocialFlood
from ssb_over_ndn.social.hello import Attachment
from ssb_over_ndn.social.keeper import Keeper
from ssb_over_ndn.social.neighbours import Neighbours
from ssb_over_ndn.social.replicas import Replicas
from testbed.layerings.kinds import social


def _deaf_to_blocks(original: Any, self: Community, message: Message) -> None:
    if isinstance(message.content, dict) and not message.content.get("blocking"):
        original(self, message)


def _one_deeper(original: Any, self: Community, user: str, hops: int) -> None:
    original(self, user, hops + 1)


def _again(original: Any, self: Keeper, author: str, *rest: Any) -> None:
    self._given.pop(author, None)
    original(self, author, *rest)


MUTANTS: Mutants = {
    "logs are not inspected": (Patch(Keeper, "_inspect", returns(True)),),
    "blocks are not read": (instead(Community, "add", _deaf_to_blocks),),
    "graphs are one follow deeper": (instead(Community, "attach", _one_deeper),),
    "replicas outlive the graph": (Patch(Replicas, "drop", returns(None)),),
    "caches outlive the graph": (Patch(social._Surroundings, "drop", returns(None)),),
    "anybody attaches anybody": (Patch(Attachment, "is_signed", returns(True)),),
    "users never leave": (Patch(Neighbours, "_detach", returns(None)),),
    "any feed is carried": (Patch(SocialFlood, "_is_admitted", returns(True)),),
    "forgeries are passed on": (Patch(SocialFlood, "accepts", returns(True)),),
    "a log that is back is told again": (instead(Keeper, "_deliver", _again),),
    "Interests have no receiver": (Patch(receivers, "_receiver", returns(None)),),
    "the end is no end": (Patch(Keeper, "end", returns(None)),),
}
