"""Plays a story of customers, providers and repositories, and checks its invariants."""

from collections import Counter
from functools import partial
from random import Random
from typing import Any

from base.token_bucket import TokenBucket
from base.units import SECOND
from forwarder.tables.face import Face
from forwarder.wire.lp import NO_ROUTE
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import make_data, parse_data
from ndn_over_ssb.contract import Terms
from ndn_over_ssb.line import QUEUE
from ndn_over_ssb.participant import Participant
from testbed.verify.kit.changes import CHANGES
from testbed.verify.kit.family import Family
from testbed.verify.kit.outcome import OutcomeOptions, Violation
from testbed.verify.kit.shrink import emulated
from testbed.verify.kit.story import Step
from testbed.verify.kit.world import World, reached
from testbed.verify.providers.network import End, Producer, ProviderNetwork, identity
from testbed.verify.providers.story import Network, make_story

CATCH_UP_NS = 600 * SECOND
"""Emulated TCP waits for up to a minute after several losses, and a peer calls again after a pause."""
_QUIET = 20 * SECOND
_OFFER = Terms(rate=1000, term_s=24 * 3600, entries=64, unread=2, transit=True)
_BEGIN_NS = 8 * SECOND  # for contracts, as far as bad links allow
_FLOOD = 200  # simultaneous Interests


class _Hostile(Participant):
    """A misbehaving participant; subclasses define the behaviour."""

    def wake(self, now: int) -> None:
        super().wake(now)
        for line in self.links():
            self.misbehave(line, now)

    def misbehave(self, line: Any, now: int) -> None:
        """Misbehave on a line."""


class _Flooder(_Hostile):
    def misbehave(self, line: Any, now: int) -> None:
        for link in self._links:
            link.allowance = TokenBucket(1, SECOND, now)


class _Garbler(_Hostile):
    def misbehave(self, line: Any, now: int) -> None:
        if line.written > 3:
            line.put(Random(f"{now}").randbytes(200), now)


class _Liar(_Hostile):
    def misbehave(self, line: Any, now: int) -> None:
        if line.written > 3:
            line._read, line._owes_read = 1000, True
            line.put(make_data(from_uri("/lies"), b""), now)


class _Pusher(_Hostile):
    def misbehave(self, line: Any, now: int) -> None:
        if line.written < 2000:
            line.put(make_data(from_uri(f"/p0/unasked/{now}"), b"unasked"), now)


class _Ender(_Hostile):
    def misbehave(self, line: Any, now: int) -> None:
        for contract in self.in_force():
            if line.written > 5 and contract.customer == self._me:
                self.end(contract.id, now)
                return


_KINDS: dict[str, type[Participant]] = {
    "floods": _Flooder,
    "garbles": _Garbler,
    "lies about what it read": _Liar,
    "sends unasked": _Pusher,
    "ends at random": _Ender,
}


class _World(World[Network]):
    JOINT = "\n"

    def __init__(self, story: Network, wanted: OutcomeOptions) -> None:
        super().__init__(story, wanted)
        calls = [(customer, provider) for customer, provider, _ in story.contracts]
        calls += [("root", story.providers[0])]
        self.net = ProviderNetwork(story.links, calls, story.seed)
        self.network, self.topology = self.net.network, self.net.topology
        self._holders = dict(story.prefixes)
        self._allocations: dict[str, str] = {}
        self._contracts: dict[tuple[str, str], str] = {}
        self._checked: Counter[str] = Counter()
        self._seen: dict[tuple[str, int], int] = {}  # (provider, face) -> its first observation, ns
        self._delegated: str | None = None
        for name in story.columns:
            self.net.add(
                name,
                offer=_OFFER if name in story.providers else None,
                producer=Producer(_answer) if name in story.repositories else None,
                kind=_KINDS.get(story.hostile.get(name, ""), Participant),
            )

    def play(self) -> None:
        net, story = self.net, self.story
        for prefix, repository in story.prefixes.items():
            self._allocations[prefix] = net.allocate(prefix, repository, [repository])
        if story.delegates:
            (prefix, holder), *_ = story.prefixes.items()
            title, self._delegated = self._allocations[prefix], f"{prefix}/delegated"
            parts = {"prefix": from_uri(self._delegated), "to": identity("root").ref}
            net.publish_statement(holder, "delegate", title=title, **parts)
        for customer, provider, terms in story.contracts:
            self._contracts[customer, provider] = net.request(customer, provider, terms)
        self.run(_BEGIN_NS)
        self.run_steps(_BEGIN_NS)
        end = net.now
        self.run(6 * SECOND)  # longer than any Interest lives
        self._deliver_all(end)
        self.outcome.caught_up = net.now - end
        self._end_all(end)
        self._check_silence()

    # Steps

    def do(self, step: Step) -> None:
        net = self.net
        if step.do == "ask":
            customer, uri, lifetime_ms = step.what
            net.ask(customer, uri, lifetime_ms=lifetime_ms)
            if self.story.hostile.get(customer) == "floods":
                net.ask(customer, *(f"{uri}/{number}" for number in range(_FLOOD)), lifetime_ms=lifetime_ms)
        elif step.do in ("cut", "heal"):
            self.set_link(*step.what, up=step.do == "heal")
        elif step.do == "restart":
            (name,) = step.what
            self._check_node(name)
            net.restart(name)
        elif step.do == "end":
            net.do(step.what[0], partial(_end, self._contracts.pop(step.what), net.now))
        elif step.do == "request":
            terms = next(terms for *pair, terms in self.story.contracts if (*pair,) == step.what)
            customer, provider = step.what
            self._contracts[step.what] = net.request(customer, provider, terms)
        elif step.do == "revoke":
            (prefix,) = step.what
            net.publish_statement("root", "revoke", allocation=self._allocations.pop(prefix))
            del self._holders[prefix]
            if self._delegated is not None and self._delegated.startswith(f"{prefix}/"):
                self._delegated = None
        elif step.do == "give":
            prefix, repository = step.what
            self._holders[prefix] = repository
            self._allocations[prefix] = net.allocate(prefix, repository, [repository])

    # Invariants

    def check_nodes(self) -> None:
        for name in self.story.columns:
            self._check_node(name)

    def _check_node(self, name: str) -> None:
        consumer, node = self.net.consumers[name], self.net.nodes[name]
        if consumer.unasked:
            raise Violation("asked for", name, "an application gets a packet that it has not asked for")
        for uri, ends in consumer.ends.items():
            key = f"{name} {id(consumer)} {uri}"
            for end in ends[self._checked[key] :]:
                self._checked[key] += 1
                self._check_end(name, uri, end, consumer.times[uri])
        if name in self.story.hostile:
            return
        for face in node.host.forwarder.faces.values():
            self._check_rate(name, node, face)
        for line in node.links():
            terms = line.terms
            # In each direction: the open feed, unread ones, and the next one.
            bound = 2 * terms.entries * (terms.unread + 2)
            if line.stored > bound:
                raise Violation("bounded", name, f"keeps {line.stored} messages of a line, not {bound}")
            if line.waiting > QUEUE:
                raise Violation("bounded", name, f"has {line.waiting} bytes waiting")

    def _check_rate(self, name: str, node: Participant, face: Face) -> None:
        """Check that a provider accepts no more Interests from a customer than agreed."""
        contract = node.contract_of(face.number)
        if contract is None or contract.provider != identity(name).ref or contract.terms is None:
            return
        since = self._seen.setdefault((f"{name} {id(node)}", face.number), self.net.now - SECOND)
        bound = contract.terms.rate * (1 + (self.net.now - since) / SECOND)
        if face.in_interests > bound:
            said = f"takes {face.in_interests} Interests of a customer, not {bound:.0f} at most"
            raise Violation("rate", name, said)

    def _check_end(self, name: str, uri: str, end: End, time: int) -> None:
        what = _kind(end)
        self.coverage[what] += 1
        self.record(f"{time} {name} {uri} {what}")
        self.note(name, f"{uri}: {what}")
        if isinstance(end, bytes):
            data = parse_data(end)
            if to_uri(data.name) != uri or end != _answer(data.name):
                raise Violation("authentic", name, f"gets {to_uri(data.name)} for {uri}, or other content")

    @property
    def _revoked(self) -> set[str]:
        """The first components of revoked prefixes."""
        return {prefix[1:] for prefix in self.story.prefixes if prefix not in self._holders}

    def _reachable(self) -> list[tuple[str, str]]:
        """Return the prefixes reachable by honest customers through contracts of honest nodes."""
        hostile = self.story.hostile
        edges = [pair for pair in self._contracts if not {*pair} & {*hostile}]
        found = []
        for customer in self.story.customers:
            if customer in hostile:
                continue
            passing = {customer, *self.story.providers}
            seen = reached(customer, edges, lambda here, _, passing=passing: here in passing)  # type: ignore[misc]
            found += [(customer, prefix) for prefix, at in sorted(self._holders.items()) if at in seen]
        return found

    def _deliver_all(self, begun: int) -> None:
        """Check that everybody finally gets the reachable prefixes, and a Nack for others."""
        net = self.net
        missing = {(customer, f"{prefix}/last/{customer}"): "data" for customer, prefix in self._reachable()}
        contracted = {customer for customer, _ in self._contracts}
        before: dict[tuple[str, str], int] = {}
        for customer in self.story.customers:
            if customer in self.story.hostile or customer not in contracted:
                continue
            refused = [f"/nobody/last/{customer}"]
            if self._delegated is not None:
                refused.append(f"{self._delegated}/last/{customer}")
            known = net.consumers[customer].ends
            refused += [
                uri
                for uri in known
                if uri.split("/")[1] in self._revoked and any(isinstance(end, bytes) for end in known[uri])
            ]
            missing |= {(customer, uri): f"nack {NO_ROUTE}" for uri in refused}
            before |= {(customer, uri): len(known.get(uri, ())) for uri in refused}
        tries = 0
        while missing:
            tries += 1
            for customer, uri in missing:
                # A customer's first provider may be cut off from a prefix: ask again.
                net.ask(customer, uri, lifetime_ms=1500)
            self.run(2 * SECOND)
            for (customer, uri), wanted in list(missing.items()):
                ends = [_kind(end) for end in net.ends(customer, uri)[before.get((customer, uri), 0) :]]
                if wanted in ends:
                    del missing[customer, uri]
                elif net.now > begun + CATCH_UP_NS:
                    said = f"does not get {wanted} for {uri}, but {', '.join(ends[-3:])}"
                    raise Violation("delivery", customer, said)

    def _end_all(self, begun: int) -> None:
        """Check that ended contracts leave no state."""
        net = self.net
        for name in self.story.columns:
            node = net.nodes[name]
            for contract in node.in_force():
                if contract.customer == identity(name).ref:
                    net.do(name, partial(_end, contract.id, net.now))
        main = {identity(name).ref for name in self.story.columns}
        while True:
            self.run(6 * SECOND)
            left = ""
            for name in self.story.columns:
                node = net.nodes[name]
                if name in self.story.hostile:
                    continue
                held = {
                    "transient feeds": net.transient(name),
                    "contracts": len(node.in_force()),
                    "PIT entries": node.host.forwarder.pit_entries(),
                    "wanted feeds": len(set(node.replication.wanted) - main),
                    "notes": len(net.clocked(name) - main),
                }
                left = next((f"{name} keeps {count} {what}" for what, count in held.items() if count), left)
            if not left:
                return
            if net.now > begun + 2 * CATCH_UP_NS:
                raise Violation("nothing left", left.partition(" ")[0], left)

    def _check_silence(self) -> None:
        """Check that nodes without contracts are silent."""
        if self.story.hostile:
            return
        self.fall_silent(lambda: self.network.frames, CATCH_UP_NS, _QUIET)


def _end(contract: str, now: int, node: Participant) -> None:
    node.end(contract, now)


def _kind(end: End) -> str:
    return end if isinstance(end, str) else "data"


def _answer(name: bytes) -> bytes:
    size = sum(name) % 4 * 2000
    return make_data(name, name.ljust(size, b"."), freshness_ms=1_000)


_PASSES = emulated("contracts", "prefixes", "hostile")

PROVIDERS = Family("providers", Network, make_story, _World, CATCH_UP_NS, _PASSES, CHANGES)
