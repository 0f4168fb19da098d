"""The address book of pubs, read from logs.

A message of type `pub` has the address of a peer that others can reach: `{"host", "port", "key"}`, or a
multiserver address. Operators and users publish them, and a peer that looks for others reads them in the logs
that it holds (Tarr et al., "Secure Scuttlebutt", ACM ICN 2019, section 2; npm's ssb-invite writes them,
ssb-conn reads them). Nobody has to tell the truth in them: the secret handshake fails at an address where the
pub is not.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from typing import Any, Final, NamedTuple

from ssb.keys import InvalidRef, parse_feed
from ssb.message import Message
from ssb.transport.address import InvalidAddress, PeerAddress, parse_address

PUB: Final = "pub"
"""The type of messages."""
MOST_OF_AN_AUTHOR: Final = 100
"""Most pubs of one author that count: the last ones in its log."""
MOST_CALLED: Final = 50
"""Most pubs from logs that a peer calls: those that most logs name."""

_HOST = re.compile(r"[0-9A-Za-z._:-]{1,253}")
_THIS_HOST = IPv4Network("0.0.0.0/8")  # RFC 1122, section 3.2.1.3
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")


class Listed(NamedTuple):
    """A pub of the book.

    Attributes:
        address: the one that most authors give.
        authors: how many do so.
    """

    address: PeerAddress
    authors: int


class Pubs:
    """The address book, computed from messages in any order of arrival.

    Of an author's addresses of one pub the last in its log counts. Adding a message again changes nothing.
    """

    def __init__(self) -> None:
        # Author -> pub -> sequence number of the last message that names it, and the address.
        self._given: defaultdict[str, dict[str, tuple[int, PeerAddress]]] = defaultdict(dict)

    def add(self, message: Message) -> None:
        """Add a message; no effect if it is not of type `pub`, or has no address."""
        if isinstance(message.content, dict):
            self.add_content(message.author, message.sequence, message.content)

    def add_content(self, author: str, sequence: int, content: Mapping[str, Any]) -> None:
        """Add the content of an author's message."""
        address = address_of(content)
        if address is None:
            return
        given = self._given[author]
        before = given.get(address.peer)
        if before is None or before[0] < sequence:
            given[address.peer] = sequence, address
            if len(given) > MOST_OF_AN_AUTHOR:
                del given[min(given, key=lambda pub: given[pub][0])]

    def retract(self, author: str, before: int) -> None:
        """Drop the addresses that an author has given in messages with numbers below `before`."""
        given = self._given.get(author, {})
        for pub in [pub for pub, (sequence, _) in given.items() if sequence < before]:
            del given[pub]

    def statements(self) -> Iterator[tuple[str, int, PeerAddress]]:
        """Yield what counts: author, sequence number, address."""
        for author, given in self._given.items():
            for sequence, address in given.values():
                yield author, sequence, address

    def listed(self, authors: Container[str]) -> list[Listed]:
        """Return the pubs that some of these authors name, those named most often first."""
        votes: defaultdict[str, Counter[PeerAddress]] = defaultdict(Counter)
        for author, _, address in self.statements():
            if author in authors:
                votes[address.peer][address] += 1
        chosen = [
            Listed(*min(count.items(), key=lambda item: (-item[1], str(item[0])))) for count in votes.values()
        ]
        return sorted(chosen, key=lambda pub: (-pub.authors, str(pub.address)))


def to_call(listed: Sequence[Listed], *, with_loopback: bool = False) -> list[PeerAddress]:
    """Return the addresses that a peer calls of the listed pubs; only on request those of its own machine."""
    addresses = [pub.address for pub in listed[:MOST_CALLED]]
    return [address for address in addresses if with_loopback or not is_loopback(address.host)]


def address_of(content: Mapping[str, Any]) -> PeerAddress | None:
    """Return the address in a content of type `pub`; None if it is of another type, or has none."""
    if content.get("type") != PUB:
        return None
    match content.get("address"):
        case {"host": str() as host, "port": int() as port, "key": str() as key}:
            address = PeerAddress(host, port, key)
        case str() as text:
            try:
                address = parse_address(text)
            except InvalidAddress:
                return None
        case _:
            return None
    try:
        parse_feed(address.peer)
    except InvalidRef:
        return None
    is_place = _HOST.fullmatch(address.host) and 0 < address.port < 1 << 16
    return address if is_place and type(address.port) is int else None


def is_loopback(host: str) -> bool:
    """Whether a host is the machine itself.

    Also True for numbers in another form than `a.b.c.d`, such as `127.1` or `0x7f000001`: resolvers read them
    in different ways (POSIX, inet_addr), and no pub needs them.
    """
    name = host.lower().removesuffix(".")
    last = name.rpartition(".")[2]
    if name == "localhost" or last == "localhost":
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return _NUMBER.fullmatch(last) is not None
    if isinstance(address, IPv6Address):
        value = int(address)
        if value >> 32 not in (0, 0xFFFF, 0x64FF9B << 64):  # not ::a.b.c.d, ::ffff:a.b.c.d, 64:ff9b::a.b.c.d
            return False
        if value <= 1:
            return True
        address = IPv4Address(value & 0xFFFFFFFF)
    return address.is_loopback or address in _THIS_HOST
