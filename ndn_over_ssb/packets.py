"""The filter of packets between lines and the forwarder: rates, contracts' terms, certificates of Data."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from forwarder.host import Host
from forwarder.wire.lp import CONGESTION, NO_ROUTE, make_lp, open_data, open_interest, parse_lp
from forwarder.wire.packet import Interest
from ndn_over_ssb.links import Link, Links
from ndn_over_ssb.name_space import NameSpace

if TYPE_CHECKING:  # python-ndn's validators are slow to import, and needed where there is trust only
    from ndn_over_ssb.trust import Trust


class Packets:
    """The filter between links and the forwarder.

    `counters`: dropped or refused packets, by reason; for `trust` and `answer` see Participant.

    Attributes:
        answered: Interests satisfied by `answer`.
        checking_ns: total waiting time of Data for validation.
    """

    def __init__(
        self,
        me: str,
        host: Host,
        links: Links,
        name_space: NameSpace,
        counters: Counter[str],
        trust: "Trust | None",
        answer: Callable[[bytes], bytes | None],
    ) -> None:
        self._me = me
        self._host = host
        self._links = links
        self._name_space = name_space
        self._counters = counters
        self._trust = trust
        self._answer = answer
        self.answered = 0
        self.checking_ns = 0

    def send(self, face: int, packet: bytes, now: int) -> None:
        """Send a packet on a line; an Interest above the rate or without room returns as a Nack."""
        link = self._links.at_face(face)
        if link is None:
            return
        interest = open_interest(packet)
        asks = interest is not None and link.contract.customer == self._me
        data = self._answer(interest.name) if interest is not None and asks else None
        if data is not None:
            self.answered += 1
            token = parse_lp(packet).pit_token
            self._host.receive(face, data if token is None else make_lp(data, pit_token=token), None, now)
            return
        if asks and not link.allowance.take(now):
            self._counters["Interests above the rate"] += 1
        elif self._links.put(link, packet, now):
            return
        else:
            self._counters["no room on the line"] += 1
        if interest is not None:
            nack = make_lp(interest.wire, nack_reason=CONGESTION)
            self._host.receive(face, nack, None, now)

    def receive(self, link: Link, packet: bytes, now: int) -> None:
        """Receive a packet from a line: check Interests by the contract's terms, Data by certificates."""
        found = open_data(packet)
        if found is not None:
            data = found[0]
            if not self._host.forwarder.pit.match(data):
                self._counters["Data that nobody asked for"] += 1
                self._links.charge(link, now)
            elif self._name_space.find(data.name) is None:
                self._counters["Data under a prefix that nobody holds"] += 1
            elif self._trust is None:
                self._host.receive(link.face, packet, None, now)
            else:
                self._trust.check(data, partial(self._on_verdict, link, packet, now), now)
                self._host.settle(now)
            return
        interest = open_interest(packet)
        if interest is None or link.contract.provider != self._me:
            self._host.receive(link.face, packet, None, now)
            return
        assert link.contract.terms is not None
        if not self._links.charge(link, now):
            self._counters["Interests above the rate"] += 1
            self._refuse(link, packet, interest, CONGESTION, now)
        elif not link.contract.terms.allow(interest.name):
            self._counters["Interests outside the contract"] += 1
            self._refuse(link, packet, interest, NO_ROUTE, now)
        else:
            self._host.receive(link.face, packet, None, now)

    def _on_verdict(self, link: Link, packet: bytes, since: int, may_pass: bool, now: int) -> None:
        self.checking_ns += now - since
        if not may_pass:
            self._counters["Data without a chain to the anchor"] += 1
            self._links.charge(link, now)
        elif self._links.at_face(link.face) is link:
            self._host.receive(link.face, packet, None, now)

    def _refuse(self, link: Link, packet: bytes, interest: Interest, reason: int, now: int) -> None:
        """Answer a customer's Interest with a Nack, without the forwarder."""
        token = parse_lp(packet).pit_token
        self._links.put(link, make_lp(interest.wire, nack_reason=reason, pit_token=token), now)
