"""SSB URIs, as applications share them, for the references and addresses used between peers.

`ssb:feed/classic/<KEY>`, `ssb:message/classic/<HASH>`, `ssb:blob/classic/<HASH>` and
`ssb:identity/group/<ID>`, in base64 for URLs, and `ssb:address/multiserver?multiserverAddress=<ADDRESS>`. The
older forms are accepted, too: `ed25519` and `sha256` in place of `classic`, `ssb://`, and colons in place of
slashes (SSB URI Specification 1.3).
"""

import re
from typing import Final
from urllib.parse import parse_qs, urlsplit

TO_URL: Final = str.maketrans("+/", "-_")
"""Of base64 to base64 for URLs, for str.translate."""
FROM_URL: Final = str.maketrans("-_", "+/")
"""And back."""
_REFERENCE: Final = re.compile(
    r"(?:(feed|message|blob)([/:])(?:classic|ed25519|sha256)\2|(identity)([/:])group\4)"
    r"([A-Za-z0-9_-]+={0,2})(?:\?.*)?"
)
_SIGILS: Final = {
    "feed": ("@", ".ed25519"),
    "message": ("%", ".sha256"),
    "blob": ("&", ".sha256"),
    "identity": ("%", ".cloaked"),
}


def plain(text: str) -> str:
    """Return the reference or address in an SSB URI; any other text unchanged."""
    scheme, colon, rest = text.strip().partition(":")
    if not colon or scheme.lower() != "ssb":
        return text
    rest = rest.removeprefix("//")
    found = _REFERENCE.fullmatch(rest)
    if found is not None:
        sigil, suffix = _SIGILS[found[1] or found[3]]
        return sigil + found[5].translate(FROM_URL) + suffix
    if rest.startswith(("address/multiserver", "address:multiserver")):
        addresses = parse_qs(urlsplit(rest).query).get("multiserverAddress")
        if addresses:
            return addresses[0]
    return text
