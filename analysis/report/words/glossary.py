"""The glossary: terms explained in place, and at the end of each page that contains them."""

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
"""Each term in its singular, and its short definition."""

COMMON = {
    "NDN": "Named Data Networking: consumers ask the network for packets by their names, whoever has them",
    "SSB": "Secure Scuttlebutt: signed logs that only their authors append to, and that peers hand on",
    "EBT": "epidemic broadcast trees: peers push messages along a tree, and tell of them beside it",
    "Interest": "an NDN packet that asks for Data by name",
    "Data": "an NDN packet with a name, content, and its producer's signature",
    "feed": "a log of signed messages, each of which names the one before; its messages are the items",
}
"""Further terms, too frequent to be marked in place."""

_TERM = re.compile(rf"\b({'|'.join(TERMS)})(s?)\b")
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL)
_CODE = re.compile(r"`([^`<]+)`")
_WORD = re.compile(r"\b[A-Za-z0-9]+\b")


def explained(text: str) -> Markup:
    """Return a text, escaped if it is not markup yet, with definitions of TERMS on hover, and what stands in
    backticks as code.
    """
    marked = _CODE.sub(r"<code>\1</code>", str(escape(text)))
    return Markup(
        _TERM.sub(lambda found: f'<abbr title="{escape(TERMS[found[1]])}">{found[0]}</abbr>', marked)
    )


def occurring(page: str) -> list[tuple[str, str]]:
    """Return the terms in a page's markup, with definitions, in alphabetical order."""
    text = _TAG.sub(" ", page)
    known = {**TERMS, **COMMON}
    found = {word[0] for word in _WORD.finditer(text)}
    said = [(term, meaning) for term, meaning in known.items() if found & {term, f"{term}s"}]
    return sorted(said, key=lambda entry: entry[0].lower())
