"""A client of a provider and the commands of its user: contacts, and texts to one of them."""

from collections.abc import Iterator
from contextlib import suppress
from random import SystemRandom
from typing import Final

from base.units import SECOND
from ssb.tiny.daemon.account import LONGEST_NAME, Account, Names, parse_key, shown
from ssb.tiny.daemon.texts import Text, printable, read_text
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.events import Event
from ssb.tiny.isp.evidence import UNPROVEN
from ssb.tiny.isp.facts import OPEN
from ssb.tiny.isp.subscription import INVITED, STANDS, WANTED, Subscription
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node

HELP: Final = (
    "/name NAME, /ask KEY, /accept KEY, /refuse KEY, /to KEY, a text, /leave KEY, /who, /farewell, /join,"
    " /help, /quit"
)
_NAME: Final = "own name"
_HAS_LEFT: Final = "has left"
_SAID: Final = {
    "onboarded": "you have a contract with the provider; /ask KEY for a contact",
    "rejected": "the provider refuses a contract; it has to /allow your key first",
    "farewell": "the contract with the provider ends",
    "over": "the contract with the provider is over; nothing of it is left",
}
_NO_PROOF: Final = (
    "but the provider passes on no proof that it is they, as tinyISP's prototypes do not: {} is not taken; "
    "if you trust the provider, both start with --unproven"
)
_OF_PEER: Final = {
    "requested": "{} wants to be your contact: /accept or /refuse",
    "subscribed": "{} is a contact now",
    "refused": "{} does not want you, or is not there",
    "unproven": f"{{0}} asks for you, {_NO_PROOF.format('the request')}",
    "ended": "{} sends no more",
    "overdue": "the provider has your texts, but {} does not say that they have come",
    "dropped": "{} takes nothing; your last texts to them are lost, as you leave",
    "accused": "{} has signed what it must not have signed; the proof is kept",
}


class Customer:
    """The Desk of a client and its user. Times are wall-clock, ns.

    Args:
        account: the user's.
        node: its node.
        isp: the provider's key.
        now: ns.
        takes_unproven: whether feeds of contacts are accepted without their proofs (`Terms.proofs`).
    """

    def __init__(
        self, account: Account, node: Node, isp: bytes, now: int, *, takes_unproven: bool = False
    ) -> None:
        self.node = node
        self._account = account
        self._isp = isp
        self._names = Names(account.store)
        self._client = Client(node, account.root, SystemRandom(), Terms(proofs=not takes_unproven), now)
        self._to: bytes | None = None
        self._new: dict[bytes, int] = {}  # subscription -> last entry that `news` has returned
        self._client.follow(isp, now)
        if self._client.contracts.current(isp) is None and account.store.get(_HAS_LEFT) is None:
            self._client.onboard(isp, now)

    def greeting(self) -> list[str]:
        contract = self._client.contracts.current(self._isp)
        if contract is None:
            said = "you have left the provider; /join asks for a contract again"
        elif contract.facts.state == OPEN:
            said = "the contract with the provider stands"
        else:
            said = "the provider is asked for a contract; it must /allow your key"
        return [f"you are {shown(self._account.root.public_key)}; {HELP}", said]

    def execute(self, line: str, now: int) -> list[str]:
        command, _, rest = line.partition(" ")
        rest = rest.strip()
        match command:
            case "/name" if rest:
                self._account.store.put(_NAME, rest[:LONGEST_NAME])
                for one in self._in_state(STANDS):
                    with suppress(ValueError):  # it ends
                        self._send(one, Text(rest[:LONGEST_NAME], is_name=True), now)
            case "/who":
                return [self._line_of(one) for one in self._client.subscriptions.values()] or ["no contacts"]
            case "/ask":
                key = parse_key(rest)
                if any(one.contact == key for one in self._client.subscriptions.values()):
                    raise ValueError(f"{self._names.of(key)} is asked, or a contact, already")
                self._client.subscribe(self._isp, key, now)
            case "/accept" | "/refuse":
                found = self._find(rest, INVITED)
                self._client.answer(found.ref, now, accept=command == "/accept")
                if command == "/accept":
                    self._begin(found.ref, now)
            case "/to":
                self._to = self._find(rest, STANDS).ref
            case "/leave":
                self._client.unsubscribe(self._find(rest, STANDS).ref, now)
            case "/farewell":
                self._client.farewell(self._isp, now)
                self._account.store.put(_HAS_LEFT, True)
            case "/join":
                self._client.onboard(self._isp, now)
                self._account.store.put(_HAS_LEFT, None)
            case "/help":
                return [HELP]
            case _ if line.startswith("/"):
                raise ValueError(f"{command}: unknown; there are {HELP}")
            case _ if line.strip():
                self._send(self._addressee(), Text(line), now)
        return []

    def news(self, now: int) -> Iterator[str]:
        """Yield events, and the texts of contacts since the last confirmation."""
        for event in self._client.take_events():
            if event.kind == "subscribed":
                self._begin(event.ref, now)
            yield from self._describe(event)
        for one in list(self._client.subscriptions.values()):
            for entry in self._client.read(one.ref):
                if entry.sequence <= self._new.get(one.ref, 0):
                    continue
                self._new[one.ref] = entry.sequence
                text = read_text(entry.content)
                if text is not None and text.is_name:
                    self._names.set(one.contact, text.text)
                elif text is not None:
                    yield f"{self._names.of(one.contact)}: {printable(text.text)}"

    def confirm(self, now: int) -> None:
        """Record that the news was shown: texts are deleted here and at the provider."""
        for ref, sequence in self._new.items():
            if ref in self._client.subscriptions:
                self._client.confirm(ref, sequence, now)
        self._new.clear()

    def _describe(self, event: Event) -> Iterator[str]:
        if event.kind in _SAID:
            yield _SAID[event.kind]
        elif event.kind == "refused" and event.detail == UNPROVEN:
            yield f"{self._names.of(event.peer)} accepts, {_NO_PROOF.format('the answer')}"
        elif event.kind in _OF_PEER:
            yield _OF_PEER[event.kind].format(self._names.of(event.peer))

    def _begin(self, ref: bytes, now: int) -> None:
        """Send the own name to a new contact, and make it the current one."""
        self._to = ref
        name = self._account.store.get(_NAME)
        if isinstance(name, str):
            with suppress(ValueError):  # it has ended meanwhile
                self._client.send(ref, Text(name, is_name=True).encode(now // SECOND), now)

    def _send(self, to: Subscription, text: Text, now: int) -> None:
        self._client.send(to.ref, text.encode(now // SECOND), now)

    def _in_state(self, state: str) -> list[Subscription]:
        return [one for one in self._client.subscriptions.values() if one.state == state]

    def _addressee(self) -> Subscription:
        standing = self._in_state(STANDS)
        for one in standing:
            if one.ref == self._to or len(standing) == 1:
                return one
        raise ValueError("choose a contact: /to KEY" if standing else "no contact yet: /ask KEY")

    def _find(self, text: str, state: str) -> Subscription:
        """Return the subscription to the typed contact; the only one if nothing was typed."""
        found = self._in_state(state)
        if not text and len(found) == 1:
            return found[0]
        key = parse_key(text, [one.contact for one in found])
        for one in found:
            if one.contact == key:
                return one
        raise ValueError(f"{self._names.of(key)} is {'no contact' if state == STANDS else 'not asking'}")

    def _line_of(self, one: Subscription) -> str:
        state = {WANTED: "asked", INVITED: "asks for you", STANDS: "contact"}.get(one.state, "sends no more")
        chosen = "  (what you type goes there)" if one.ref == self._to else ""
        return f"{self._names.of(one.contact)}  {state}  {shown(one.contact)}{chosen}"
