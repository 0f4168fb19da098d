"""Invariants of providers and clients: continuous and final ones."""

from collections import Counter, defaultdict

from ssb.tiny.entry import PACKET
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.contract import MOST_UNREAD, Contract
from ssb.tiny.isp.facts import OVER
from ssb.tiny.isp.messages import NOT_FOUND
from ssb.tiny.isp.party import BaseParty
from ssb.tiny.isp.provider.provider import Provider
from ssb.tiny.store import MOST_AHEAD, TinyStore
from testbed.verify.kit.outcome import OutcomeOptions, Violation
from testbed.verify.kit.world import World
from testbed.verify.tiny.members import Member
from testbed.verify.tiny.story import ASKING, Cell

_CHECKED_EVERY = 4
"""Checks of a node between two checks of its whole store."""
_ASKED = 20
"""Maximum number of repeated subscription requests by a client."""
_CONTROL_BYTES = (MOST_UNREAD + 2 * MOST_AHEAD) * 5 * PACKET
"""Size of both control feeds of a contract: entries not acknowledged, and entries ahead."""


class Ledger(World[Cell]):
    """Requests, messages and deliveries, and their checks.

    Args:
        story: the events.
        stores: node -> its store.
        wanted: see World.
    """

    def __init__(self, story: Cell, stores: dict[str, TinyStore], wanted: OutcomeOptions) -> None:
        super().__init__(story, wanted)
        self.running = "the cell"
        self._stores = stores
        self._members: dict[str, Member] = {}
        self._names: dict[bytes, str] = {}
        self._looks = 0
        self._off: set[str] = set()
        self._asleep: set[str] = set()
        self._dropped: set[bytes] = set()  # references of entries that a farewell did not wait for
        self._waiting: list[tuple[str, str, tuple[int, ...]]] = []  # sends before their subscription
        self._refs: dict[tuple[str, str], bytes] = {}  # asker, asked
        self._asked: Counter[tuple[str, str]] = Counter()
        self._sent: dict[tuple[bytes, str], list[bytes]] = defaultdict(list)  # by reference and sender
        self._read: dict[tuple[bytes, str], list[bytes]] = defaultdict(list)  # by reference and reader
        self._subscribed: dict[bytes, dict[str, bytes]] = defaultdict(dict)  # reference -> client -> contract
        self._left: set[bytes] = set()  # contracts with a farewell
        self._is_cut = False  # whether a contract of two providers has one
        self._answers: Counter[str] = Counter()  # clients' answers to requests
        self._starts: Counter[str] = Counter()
        self._wants: dict[str, bool] = dict.fromkeys(story.clients, False)  # whether it wants a contract

    def root_of(self, name: str) -> bytes:
        """Return a node's root feed."""
        raise NotImplementedError

    def _party(self, name: str) -> BaseParty:
        return self._members[name].party

    def _provider(self, name: str) -> Provider:
        party = self._party(name)
        assert isinstance(party, Provider)
        return party

    def _client(self, name: str) -> Client:
        party = self._party(name)
        assert isinstance(party, Client)
        return party

    def _is_up(self, name: str) -> bool:
        return name not in self._off and not self._members[name].is_dead

    # Continuous checks

    def _check_node(self, name: str) -> None:
        """Process a node's events, and check it."""
        party = self._party(name)
        for event in party.take_events():
            self.coverage[event.kind] += 1
            self.note(name, event.kind)
            self.record(f"{self.now} {name} {event.kind} {event.ref.hex()} {event.detail}")
            if event.kind == "refused" and event.detail == NOT_FOUND:
                self._ask_again(event.ref)
            if event.kind == "dropped":
                self._dropped.add(event.ref)
            if event.kind == "over" and self.story.terms.term is not None and name in self._wants:
                self._wants[name] = False
        self._answer_all(name, party)
        if name not in self.story.hostile:
            for contract in party.contracts.values():
                self._check_contract(name, party, contract)
        if isinstance(party, Client) and name not in self._asleep:
            self._read_all(name, party)
        self.coverage.update({f"fault: {fault}": count for fault, count in party.faults.items()})
        party.faults.clear()
        self._looks += 1
        if self._looks % _CHECKED_EVERY == 0:
            self._check_store(name)

    def _answer_all(self, name: str, party: BaseParty) -> None:
        """Answer requests, mostly yes; an event may be lost with its process."""
        if isinstance(party, Client):
            for ref in list(party.subscriptions):
                one = party.subscriptions.get(ref)
                if one is None:
                    continue  # refusing one of a group refuses the group
                if one.state == "invited":
                    self._answers[name] += len(one.group) if one.group else 1
                    party.answer(ref, self.now, accept=ref[0] % 8 != 0)
                    self.network.settle(name)
                elif one.state == "stands":
                    self._subscribed[ref][name] = one.contract

    def _ask_again(self, ref: bytes) -> None:
        """Repeat refused requests, as the other may get a contract; a bounded number of times."""
        for pair in [pair for pair, known in self._refs.items() if known == ref]:
            self._asked[pair] += 1
            if self._asked[pair] < _ASKED and self._wants[pair[1]]:
                del self._refs[pair]
                self._waiting.insert(0, (*pair, ()))

    def _read_all(self, name: str, client: Client) -> None:
        now = self.now
        for ref, one in list(client.subscriptions.items()):
            other = self._names[one.contact]
            for entry in client.read(ref):
                read, sent = self._read[ref, name], self._sent[ref, other]
                if len(read) >= len(sent) or sent[len(read)] != entry.content:
                    what = f"{entry.content[:12]!r} from {other} as its {len(read) + 1}th of {len(sent)}"
                    raise Violation("once, in order", name, what)
                read.append(entry.content)
                self.coverage["read"] += 1
                client.confirm(ref, entry.sequence, now)
                self.network.settle(name)

    def _check_contract(self, name: str, party: BaseParty, contract: Contract) -> None:
        store = self._stores[name]
        facts = contract.facts
        if facts.state in ("farewell", OVER):
            self._left.add(contract.id)
            self._is_cut |= {self._names[facts.client], self._names[facts.isp]} <= set(self.story.isps)
        if len(facts.own_line) > contract.terms.unread:
            raise Violation("bounded", name, f"has begun {len(facts.own_line)} data feeds")
        line = store.size([feed for feed in (*facts.own_line, facts.other_data) if feed is not None])
        most = contract.terms.line_bytes() + contract.terms.size * contract.terms.outer_bytes
        if line > most:
            raise Violation("bounded", name, f"stores {line} bytes of data feeds; {most} are agreed")
        control = store.size([feed for feed in (facts.own_control, facts.other_control) if feed is not None])
        if control > _CONTROL_BYTES:
            raise Violation("bounded", name, f"stores {control} bytes of control feeds")
        if isinstance(party, Provider):
            self._check_commands(name, contract)
            for route in party.routes.values():
                for side in (route.a, route.b):
                    waiting = party._waiting(side)
                    if waiting > contract.terms.backlog + contract.terms.unread * contract.terms.size:
                        raise Violation("bounded", name, f"holds {waiting} entries for one receiver")

    def _check_commands(self, name: str, contract: Contract) -> None:
        """Check that a provider has read no more commands of a client than agreed, except answers."""
        client, terms, control = self._names[contract.other], contract.terms, contract.facts.other_control
        if client not in self._wants or control is None:
            return
        receipts = sum(len(read) for (_, reader), read in self._read.items() if reader == client)
        free = contract.facts.epoch + self._answers[client] + receipts
        most = self._starts[name] * terms.burst + self.now // terms.pace + free
        read = self._stores[name].feeds[control].mark
        if read > most:
            raise Violation("bounded", name, f"has read {read} commands of {client}; {most} are agreed")

    def _check_store(self, name: str) -> None:
        """Check that every feed and record belongs to something current."""
        party, store = self._party(name), self._stores[name]
        known = {self.root_of(name), *party.followed}
        records = {"followed", "announced", "whitelist", "peers"}
        for evidence in party.accusations.evidence():
            self.coverage[f"accused: {evidence.reason}"] += 1
            accused = self._names[evidence.accused]
            if accused not in self.story.hostile:
                raise Violation("no false accusation", accused, f"is accused by {name}: {evidence.reason}")
            if not evidence.is_signed():
                raise Violation("no false accusation", name, f"has no proof of {evidence.reason}")
            records.add(evidence.name)
        for contract in party.contracts.values():
            known |= set(contract.feeds)
            records |= {f"contract {contract.id.hex()}", f"reach {contract.id.hex()}"}
        if isinstance(party, Provider):
            for route in party.routes.values():
                known |= {side.feed for side in (route.a, route.b) if side.feed is not None}
                records.add(f"route {route.ref.hex()}")
        elif isinstance(party, Client):
            for one in party.subscriptions.values():
                known |= {feed for feed in (one.own, one.other) if feed is not None}
                records.add(f"subscription {one.ref.hex()}")
            for group in party.groups.values():
                known.add(group.own)
                records.add(f"group {group.id.hex()}")
        if strangers := set(store.feeds) - known:
            raise Violation("nothing left", name, f"has {len(strangers)} feeds that belong to nothing")
        if others := store.names() - records:
            raise Violation("nothing left", name, f"has records {sorted(others)}")

    # Final checks

    def _missing(self) -> Violation | None:
        """Return the first unmet final requirement; None if all are met."""
        if self._off or any(self._members[name].is_dead for name in self._stores):
            return Violation("time", "the cell", "a node is down")
        pairs = [*self.story.home.items(), *self.story.peers]
        for name, isp in pairs:
            if {name, isp} & set(self.story.hostile):
                continue
            there, here = self._between(isp, name), self._between(name, isp)
            if name not in self._wants:
                if here != there or set(here.values()) != {"open"}:
                    what = f"contracts {_short(here)}, at {isp} {_short(there)}"
                    return Violation("both alike", name, what)
                continue
            states = set(here.values()) | set(there.values())
            wanted = {"open"} if self._wants[name] else set()
            if here != there or (states != wanted and self.story.terms.term is None):
                return Violation(
                    "both alike", name, f"contracts {_short(here)}, at the provider {_short(there)}"
                )
            if self.story.terms.term is not None and states - {"open"}:
                return Violation("both alike", name, f"contracts {_short(here)} do not come to an end")
        if set(self.story.isps) & set(self.story.hostile):
            return None
        return self._unread() or self._left_over() or self._unreached()

    def _unreached(self) -> Violation | None:
        """Check that each provider reaches the clients of all others, and nobody else."""
        for isp in self.story.isps:
            others = {
                client
                for other in self.story.isps
                if other != isp
                for client in self._provider(other).clients
            }
            reached = set(self._provider(isp).reachability.paths())
            if reached != others:
                what = (
                    f"reaches {len(reached & others)} of {len(others)} clients, and {len(reached - others)}"
                )
                return Violation("both alike", isp, f"{what} who are none")
        return None

    def _between(self, name: str, other: str) -> dict[bytes, str]:
        """Return the states of a node's contracts with another."""
        return {
            one.id: one.facts.state
            for one in self._party(name).contracts.values()
            if one.other == self.root_of(other)
        }

    def _unread(self) -> Violation | None:
        slept = {step.what[0] for step in self.story.steps if step.do == "sleep"}
        for (ref, sender), sent in self._sent.items():
            ends = self._subscribed[ref]
            if self._is_cut and len({self.story.home[end] for end in ends}) > 1:
                continue
            for reader, contract in ends.items():
                if reader == sender or {reader, sender} & set(self.story.hostile):
                    continue
                if reader in self._asleep or self._is_held_up(ref, reader):
                    continue
                read = self._read[ref, reader]
                sender_left = ends.get(sender) in self._left
                if sender_left and (ref in self._dropped or (reader in slept and self.story.kills)):
                    continue  # a kill may lose the event
                if contract not in self._left and len(read) < len(sent) and len(ends) == 2:
                    what = f"has read {len(read)} of {len(sent)} from {sender}{' who has left' * sender_left}"
                    return Violation("delivery", reader, what)
        return None

    def _is_held_up(self, ref: bytes, reader: str) -> bool:
        """Return whether a member of a subscription's group floods: its `fin`s wait behind its requests.

        So it is slow, and the slowest member sets the pace of a group.
        """
        one = self._client(reader).subscriptions.get(ref)
        members = [self._names[member] for member in (one.group[1:] if one is not None and one.group else [])]
        return any(
            self.story.hostile.get(member) in ASKING and self._has_unread_commands(member)
            for member in members
        )

    def _has_unread_commands(self, client: str) -> bool:
        """Return whether a provider has unread commands of a client."""
        return any(
            contract.facts.own_control in store.feeds
            and store.feeds[contract.facts.own_control].mark
            < self._stores[client].feeds[contract.facts.own_control].sequence
            for contract in self._client(client).contracts.values()
            for name, store in self._stores.items()
            if self._names.get(contract.other) == name
        )

    def _left_over(self) -> Violation | None:
        """Check that routes and subscriptions belong to standing contracts."""
        standing = {ref for name in self.story.clients for ref in self._client(name).subscriptions}
        awake = [name for name in self.story.clients if name not in self._asleep]  # others keep the unread
        bad = {self.root_of(name) for name in self.story.hostile}
        for isp in self.story.isps:
            for ref, route in self._provider(isp).routes.items():
                if ref not in standing and not {route.source, route.target} & bad:
                    return Violation("both alike", isp, "has a route that no client knows")
        for name in awake:
            for one in self._client(name).subscriptions.values():
                is_known = one.ref in self._provider(self.story.home[name]).routes or one.state == "wanted"
                if not is_known and one.contact not in bad and name not in self.story.hostile:
                    return Violation("both alike", name, "has a subscription that the provider does not know")
        return None


def _short(states: dict[bytes, str]) -> dict[str, str]:
    return {contract.hex()[:6]: state for contract, state in states.items()}
