"""Words that not every reader knows, explained where they stand."""

import re

from markupsafe import Markup, escape

TERMS = {
    "PIT": "Pending Interest Table: what a forwarder remembers of Interests, and feeds, that wait for Data",
    "LLI": "long-lived Interest: an Interest that asks for up to so many items of a feed as they are written",
    "RDR": "Realtime Data Retrieval: an Interest for metadata tells what the newest version or item is",
    "CDF": "cumulative distribution function: the share of all samples that are at most so large",
    "FeedState": "a forwarder tells its neighbour what the newest item of a feed is, and how far it may send",
    "NDNLPv2": "NDN Link Protocol, version 2: what goes between two neighbours around an NDN packet",
    "Nack": "a forwarder's no to an Interest, with the reason",
}
"""Each term in its singular, and what it means in a few words."""

_TERM = re.compile(rf"\b({'|'.join(TERMS)})(s?)\b")


def explained(text: str) -> Markup:
    """Return a text, escaped if it is not markup yet, with TERMS that tell their meaning when pointed at."""
    return Markup(
        _TERM.sub(
            lambda found: f'<abbr title="{escape(TERMS[found[1]])}">{found[0]}</abbr>', str(escape(text))
        )
    )
