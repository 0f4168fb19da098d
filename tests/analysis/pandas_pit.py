"""A slow and plain model of a node's PIT, written from the text of analysis.pit.model alone.

It keeps the table as it is, looks at all of it after every instant, and writes down what there is.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

HEARD, SENT = 4, 16  # nonces of LLIs that are remembered
ENDS = {"lli": "cancelled", "nack": "nacked"}  # how a feed ends that such a packet leaves with nothing
Packet = dict[str, Any]


def begun(now: int) -> dict[str, Any]:
    """Return what an entry's life comes to, as it begins."""
    return {"opened": now, "lasted": False, "in": 0, "out": 0, "renewals": 0}


def is_there(entry: Any) -> bool:
    """Tell whether a classic entry counts: it has a record."""
    return bool(entry["ins"] or entry["outs"])


def skip(held: Any, first: int) -> None:
    """Let a range begin at an item."""
    held["next"] = max(held["next"], first)
    held["again"] = {seq for seq in held["again"] if seq >= first}


def left(feed: Any) -> int:
    """Return how many items may still be sent down."""
    return sum(held["limit"] - held["next"] + 1 for held in feed["down"].values())


class Pit:
    """The table: `classic` by (name, CanBePrefix, MustBeFresh), `feeds` by name.

    `states` are its entries, bytes and credit by time, `lives` what became of the entries that have ended.
    """

    def __init__(self) -> None:
        self.classic: dict[Any, Any] = {}
        self.feeds: dict[Any, Any] = {}
        self.states: dict[int, tuple[int, int, int]] = {}
        self.lives: list[dict[str, Any]] = []
        self.held: dict[tuple[str, bool], tuple[int, bytes]] = {}  # of Hellos, by interface and whether in
        self.now = self.wake = 0

    def entry(self, packet: Packet) -> Any:
        key = packet["name"], packet["can_be_prefix"], packet["must_be_fresh"]
        fresh = {"ins": {}, "outs": {}, "expiry": 0, "own": 0, "asked": 0, "passes": False, "undo": None}
        fresh["life"] = begun(self.now)
        return key, self.classic.get(key), fresh

    def end(self, table: dict[Any, Any], key: Any, outcome: str) -> None:
        """Remove an entry."""
        self.lives.append(table.pop(key)["life"] | {"closed": self.now, "outcome": outcome})

    def settle(self, outcome: str) -> None:
        """Drop what is over: classic entries past their expiry, ranges past theirs, feeds without any.

        `outcome` is that of a feed that has nothing left now.
        """
        now, ahead = self.now, []
        for key, entry in list(self.classic.items()):
            if entry["expiry"] <= now:
                self.end(self.classic, key, "expired")
            ahead.append(entry["expiry"])
        for name, feed in list(self.feeds.items()):
            feed["down"] = {
                i: held
                for i, held in feed["down"].items()
                if held["expiry"] > now and (held["next"] <= held["limit"] or held["again"])
            }
            for up in feed["ups"].values():
                if up["expiry"] <= now or (up["head"] > up["limit"] and not up["missing"]):
                    up["over"] = True
            if not feed["down"] and all(up["over"] for up in feed["ups"].values()):
                self.end(self.feeds, name, outcome)
            ahead += [held["expiry"] for held in [*feed["down"].values(), *feed["ups"].values()]]
        self.wake = min((time for time in ahead if time > now), default=1 << 62)

    def write_down(self) -> None:
        sizes = [
            sum(map(len, name)) + 16 * (len(entry["ins"]) + len(entry["outs"]))
            for (name, _, _), entry in self.classic.items()
            if is_there(entry)
        ] + [
            sum(map(len, name)) + 28 * (len(feed["down"]) + len(feed["ups"]))
            for name, feed in self.feeds.items()
        ]
        self.states[self.now] = len(sizes), sum(sizes), sum(map(left, self.feeds.values()))

    def move_to(self, time: int) -> None:
        """Let time pass: what is there when it does has lasted."""
        if time > self.now:
            for entry in [*filter(is_there, self.classic.values()), *self.feeds.values()]:
                entry["life"]["lasted"] = True
        self.now = time

    def run_until(self, time: int) -> None:
        """Let time pass: what is due at `time` is done."""
        while self.wake <= time:
            self.move_to(self.wake)
            self.settle("expired")
            self.write_down()
        self.move_to(time)

    def receive(self, packet: Packet) -> None:
        self.run_until(packet["time"])
        is_in, kind = packet["direction"] == "in", packet["kind"]
        outcome = ENDS.get(kind, "lost")
        if kind == "restart":
            for table in (self.classic, self.feeds):
                for key in list(table):
                    self.end(table, key, "lost")
        elif kind == "link-down":
            self.link_down(packet["interface"])
        elif kind == "data":
            self.data(packet, is_in)
            outcome = "satisfied" if packet["feed"] else "forked"
        elif kind == "nack" and packet["credit"] is not None:
            self.refused(packet, is_in)
        elif kind == "nack":
            self.nack(packet, is_in)
        elif kind == "state":
            self.state(packet, is_in)
        elif kind == "hello":
            self.hello(packet, is_in)
        elif kind in ("interest", "lli") and not (is_in and packet["hop_limit"] == 0):
            (self.lli if kind == "lli" else self.interest)(packet, is_in)
        self.settle(outcome)
        self.write_down()

    # Classic Interests, persistent ones among them.

    def interest(self, packet: Packet, is_in: bool) -> None:
        key, entry, fresh = self.entry(packet)
        at, nonce, expiry = packet["interface"], packet["nonce"], packet["time"] + packet["lifetime"]
        if entry and is_in:
            same = [i for i, record in entry["ins"].items() if record["nonce"] == nonce]
            sent = [record for record in entry["outs"].values() if record["nonce"] == nonce]
            if (same and same[0] != at) or (sent and not same):
                return
        entry = self.classic.setdefault(key, fresh)
        if packet["persistent"]:
            entry["passes"] = True
            entry["ins"] = {
                i: r for i, r in entry["ins"].items() if not r["persistent"] or r["expiry"] > self.now
            }
            if not is_in and all(record["nonce"] != nonce for record in entry["ins"].values()):
                entry["own"] = expiry
        entry["life"]["in" if is_in else "out"] += 1
        if is_in:
            entry["undo"] = (packet["time"], at, entry["ins"].get(at), entry["expiry"])
            entry["ins"][at] = {"nonce": nonce, "expiry": expiry, "persistent": packet["persistent"]}
        else:
            entry["outs"][at] = {"nonce": nonce, "nacked": False}
            came, by = (entry["undo"] or (-1, None))[:2]
            is_probe = by in entry["ins"] and self.now - came <= 100_000
            if not is_probe and all(record["nonce"] != nonce for record in entry["ins"].values()):
                entry["asked"] = expiry
        entry["expiry"] = max(entry["expiry"], expiry)

    def data(self, packet: Packet, is_in: bool) -> None:
        name, asked = packet["name"], set()
        for key, entry in list(self.classic.items()):
            whole, can_be_prefix, _ = key
            is_digest = whole[:-1] == name and whole[-1][0] == 1
            if whole == name or is_digest or (can_be_prefix and name[: len(whole)] == whole):
                asked |= {*entry["ins"]} if whole == name else set()
                self.answer(key, entry, packet, is_in)
        if packet["feed"] is not None and name[:-1] in self.feeds:
            self.item(self.feeds[name[:-1]], packet, asked, is_in)
        elif name[-2:-1] == (b"\x20\x04fork",) and name[:-2] in self.feeds:
            feed, seq = self.feeds[name[:-2]], int.from_bytes(name[-1][2:], "big")
            for up in feed["ups"].values():
                up["limit"] = min(up["limit"], seq - 1)
                up["missing"] = {each for each in up["missing"] if each < seq}
            if not is_in:
                feed["down"].pop(packet["interface"], None)

    def answer(self, key: Any, entry: Any, packet: Packet, is_in: bool) -> None:
        at, now = packet["interface"], packet["time"]
        if entry["passes"]:
            entry["ins"] = {
                i: record
                for i, record in entry["ins"].items()
                if record["persistent"] and record["expiry"] > now
            }
            entry["asked"] = 0
            is_over = not entry["ins"] and entry["own"] <= now
        elif is_in:
            is_over = True
        elif at not in entry["ins"]:
            is_over = False
        else:
            del entry["ins"][at]
            time, interface, record, expiry = entry["undo"]
            if (time, interface) == (now, at) and expiry:  # it was answered at once: as if it had not come
                is_over = False
                entry["expiry"] = expiry
                if record:
                    entry["ins"][at] = record
            else:
                is_over = all(record["expiry"] <= now for record in entry["ins"].values())
        if is_over:
            self.end(self.classic, key, "satisfied")

    def nack(self, packet: Packet, is_in: bool) -> None:
        key, entry, _ = self.entry(packet)
        record = (entry or {}).get("outs" if is_in else "ins", {}).get(packet["interface"])
        if record is None or record["nonce"] != packet["nonce"]:
            return
        if is_in:
            record["nacked"] = True
            is_over = not entry["ins"] and all(each["nacked"] for each in entry["outs"].values())
        else:
            del entry["ins"][packet["interface"]]
            time, interface, _, expiry = entry["undo"]
            if (time, interface) == (self.now, packet["interface"]) and expiry:
                entry["expiry"] = expiry
            is_over = not entry["ins"] and not self.is_asking(entry)
        if is_over:
            self.end(self.classic, key, "nacked")

    def is_asking(self, entry: Any) -> bool:
        outs = entry["outs"].values()
        return entry["asked"] > self.now and not (outs and all(each["nacked"] for each in outs))

    def link_down(self, at: str) -> None:
        for key, entry in list(self.classic.items()):
            entry["outs"].pop(at, None)
            was_waiting = entry["ins"].pop(at, None) is not None
            if was_waiting and not entry["ins"] and entry["own"] <= self.now and not self.is_asking(entry):
                self.end(self.classic, key, "lost")
        for feed in self.feeds.values():
            feed["down"].pop(at, None)
            feed["ups"].pop(at, None)

    # Long-lived Interests.

    def lli(self, packet: Packet, is_in: bool) -> None:
        name = packet["name"][:-1]
        fresh = {"down": {}, "ups": {}, "sent": [], "heard": defaultdict(list), "firsts": Counter()}
        fresh |= {"repairs": True, "owed": set()}
        fresh["life"] = begun(self.now)
        if packet["credit"]:
            self.feeds.setdefault(name, fresh)
        if name in self.feeds:
            (self.lli_in if is_in else self.lli_out)(self.feeds[name], packet)

    def lli_in(self, feed: Any, packet: Packet) -> None:
        at, nonce, first = packet["interface"], packet["nonce"], packet["seq"]
        last, expiry = first + packet["credit"] - 1, packet["time"] + packet["lifetime"]
        if nonce in feed["sent"][-SENT:]:
            return
        feed["life"]["in"] += 1
        if packet["credit"] == 0:
            feed["down"].pop(at, None)
            return
        if nonce in feed["heard"][at][-HEARD:]:
            return
        feed["heard"][at].append(nonce)
        feed["life"]["renewals"] += at in feed["down"] and last >= feed["down"][at]["limit"]
        fresh = {"next": first, "limit": last, "expiry": expiry, "again": set(), "told": False}
        held = feed["down"].setdefault(at, fresh)
        held["lifetime"] = packet["lifetime"]
        if last < held["next"]:
            held["expiry"] = max(held["expiry"], expiry)
            held["again"] = {*sorted(held["again"] | {*range(max(first, last - 63), last + 1)})[-64:]}
        else:
            held |= {"next": min(held["next"], first), "limit": max(held["limit"], last), "expiry": expiry}
            held["again"] = {seq for seq in held["again"] if seq < held["next"]}

    def lli_out(self, feed: Any, packet: Packet) -> None:
        at, first = packet["interface"], packet["seq"]
        last, expiry, up = (
            first + packet["credit"] - 1,
            packet["time"] + packet["lifetime"],
            feed["ups"].get(at),
        )
        feed["sent"].append(packet["nonce"])
        feed["life"]["out"] += 1
        if packet["credit"] == 0:
            feed["ups"].pop(at, None)
            return
        if up is None:
            fresh = {"missing": set(), "over": False, "offered": False}
            feed["ups"][at] = fresh | {"head": first, "limit": last, "expiry": expiry}
        else:
            feed["life"]["renewals"] += not up["over"] and last >= up["limit"]
            if first > up["limit"] or (first < up["head"] and last >= up["limit"]):
                up["head"] = first
                up["missing"] = {seq for seq in up["missing"] if seq >= first}
            up |= {"limit": max(up["limit"], last), "expiry": max(up["expiry"], expiry), "over": False}
        feed["ups"][at]["lifetime"] = packet["lifetime"]

    def refused(self, packet: Packet, is_in: bool) -> None:
        feed, at = self.feeds.get(packet["name"][:-1]), packet["interface"]
        if feed and not is_in:
            feed["down"].pop(at, None)
        elif feed and packet["nonce"] in feed["sent"][-SENT:]:
            feed["ups"].pop(at, None)

    def item(self, feed: Any, packet: Packet, asked: set[str], is_in: bool) -> None:
        """Let an item pass that the classic Interests of some interfaces have asked for."""
        seq, at = packet["seq"], packet["interface"]
        if is_in:
            feed["owed"] = {(seq, each) for each in asked}
            self.item_in(feed, packet)
        elif (seq, at) in feed["owed"]:
            feed["owed"].remove((seq, at))
        elif at not in asked:
            self.item_out(feed, packet)

    def item_in(self, feed: Any, packet: Packet) -> None:
        seq, at = packet["seq"], packet["interface"]
        for up in feed["ups"].values():
            if seq <= up["limit"]:
                if seq >= up["head"]:
                    up["missing"] |= set(range(up["head"], seq)) if feed["repairs"] else set()
                    up["head"] = seq + 1
                up["missing"].discard(seq)
        if at in feed["ups"] and packet["evidence"]:
            feed["ups"][at]["offered"] = True
        if at in feed["down"] and feed["down"][at]["next"] == seq:
            skip(feed["down"][at], seq + 1)

    def item_out(self, feed: Any, packet: Packet) -> None:
        held, seq = feed["down"].get(packet["interface"]), packet["seq"]
        if not held:
            return
        held["told"] = held["told"] or bool(packet["evidence"])
        if seq in held["again"]:
            held["again"].remove(seq)
        elif held["next"] <= seq <= held["limit"]:
            if seq > held["next"]:
                feed["repairs"] = False
                for up in feed["ups"].values():
                    up["missing"] = set()
            held["next"] = seq + 1

    def state(self, packet: Packet, is_in: bool) -> None:
        feed, at = self.feeds.get(packet["name"]), packet["interface"]
        if feed and is_in and at in feed["ups"]:
            feed["ups"][at]["offered"] = bool(packet["evidence"])
        elif feed and not is_in and at in feed["down"]:
            feed["down"][at]["told"] = bool(packet["evidence"])
            if (packet["first"] or 0) > feed["firsts"][at]:
                feed["firsts"][at] = packet["first"]
                skip(feed["down"][at], packet["first"])

    def hello(self, said: Packet, is_in: bool) -> None:
        at, held, number = said["interface"], said["held"], said["number"]
        renews = held is not None and self.held.get((at, not is_in)) == (said["reply"], held)
        if renews:
            del self.held[at, not is_in]
        if number is not None and held is not None and said["reply"] is None:
            self.held[at, is_in] = number, held
        for name, feed in self.feeds.items():
            self.hello_of(feed, sha256(b"".join(name)).digest()[:8], said, is_in, renews)

    def hello_of(self, feed: Any, reference: bytes, said: Packet, is_in: bool, renews: bool) -> None:
        at = said["interface"]
        table, knows = (feed["ups"], "offered") if is_in else (feed["down"], "told")
        if at in table:
            for state in said["states"]:
                if state["reference"] == reference and state["there"]:
                    table[at][knows] = state["evidence"] is not None
            if renews and table[at][knows]:
                table[at]["expiry"] = max(table[at]["expiry"], self.now + table[at]["lifetime"])
        if is_in and any(have["reference"] == reference and not have["there"] for have in said["haves"]):
            feed["down"].pop(at, None)
        if said["forgotten"]:
            feed["down" if is_in else "ups"].pop(at, None)


def follow(packets: Iterable[Packet], end: int) -> Pit:
    """Return a node's table as it was from its packets to `end` (ns), with a life of each entry."""
    pit = Pit()
    for packet in packets:
        if packet["time"] <= end:
            pit.receive(packet)
    pit.run_until(end)
    for table in (pit.classic, pit.feeds):
        for key in list(table):
            pit.end(table, key, "open")
    return pit


def together(nodes: Iterable[dict[int, tuple[int, int, int]]]) -> dict[int, tuple[int, int]]:
    """Add up the tables of some nodes."""
    changes: Counter[tuple[int, int]] = Counter()
    for each in nodes:
        before = (0, 0, 0)
        for time, state in sorted(each.items()):
            for which in (0, 1):
                changes[time, which] += state[which] - before[which]
            before = state
    total, entries, size = {}, 0, 0
    for time in sorted({time for time, _ in changes}):
        entries, size = entries + changes[time, 0], size + changes[time, 1]
        total[time] = entries, size
    return total


def mean_and_peak(table: dict[int, tuple[int, ...]], which: int, start: int, end: int) -> tuple[float, int]:
    """Return the mean from `start` to `end`, and the highest at any time: of entries (which = 0), bytes (1)
    or credit (2)."""
    times = sorted(table)
    area = sum(
        table[time][which] * (min(until, end) - max(time, start))
        for time, until in zip(times, [*times[1:], end], strict=True)
        if until > start and time < end
    )
    return area / (end - start), max((state[which] for state in table.values()), default=0)
