"""Events of a party, for its user."""

from typing import NamedTuple


class Event(NamedTuple):
    """An event.

    Attributes:
        kind: "announced", "onboarded", "rejected", "farewell" and "over", of a contract with `peer`;
            "requested", "subscribed", "refused" and "ended", of a subscription to `peer`; "unproven", a
            request of `peer` was refused for lack of a proof; "received", something can be read there;
            "overdue", the provider has taken entries without a receipt; "dropped", a farewell has waited
            long enough for `peer`, and entries to it are lost; "accused", `peer` has signed evidence against
            itself (`ssb.tiny.isp.accusations`).
        peer: a root feed.
        ref: the subscription's reference; b"" if there is none.
        detail: more, in a word.
    """

    kind: str
    peer: bytes
    ref: bytes = b""
    detail: str = ""
