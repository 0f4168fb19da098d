"""What a player shows, against the files of its run.

PITs, clocks and routes of layerings over NDN are computed again by pandas_model, which reads captures and
manifest without the analysis. Counters are lines of counters.jsonl. What TCP and tinySSB carried is taken
from the tables of the analysis, but states are made of it here.
"""

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pandas_model
import pyarrow.parquet as pq
from ndn.encoding import Component, Name
from pandas_pit import Pit, is_there, left

from analysis.run.context import Case
from analysis.run.manifest import Run

Rows = dict[tuple[str, str], list[Any]]
"""What is shown of a node: values by table and key."""

NEVER, MOST_CREDIT = 1 << 60, (1 << 63) - 1
COMMANDS = {
    "contracts requested": {"onboard_request"},
    "contracts answered": {"onboard_response"},
    "contracts opened": {"onboard_ack"},
    "contracts ended": {"farewell_fin"},
    "feeds requested": {"sub_req"},
    "feeds answered": {"sub_resp", "sub_resp_isp"},
    "data feeds": {"feedhopping_prev"},
    "data feeds read": {"feedhopping_fin"},
    "pauses": {"sub_pause"},
}
"""What each command of tinyISP is called (docs/tiny.md)."""


class Truth:
    """What the files of a layering's run say of its nodes at a time, ns from its start."""

    def __init__(self, run: Run, layering: str) -> None:
        self._run, self._layering = run, layering
        manifest = json.loads((run.directory / "manifest.json").read_text())
        self._start: int = manifest["runs"][layering]["start_ns"]
        publishers: Counter[str] = Counter()
        self._labels = {}
        for feed in manifest["workload"]["feeds"]:
            publishers[feed["publisher"]] += 1
            number = publishers[feed["publisher"]]
            self._labels[feed["feed"]] = feed["publisher"] + (f"/{number}" if number > 1 else "")
        self._timeline = [x for x in manifest["timeline"] if x.get("layering", layering) == layering]
        self._model = None
        if Case(run, layering).protocol == "ndn":
            self._model = pandas_model.Model(run.directory, layering)
        directory = run.directory / layering
        self._counters = by_node(map(json.loads, (directory / "counters.jsonl").read_text().splitlines()))
        self._events = [*map(json.loads, (directory / "events.jsonl").read_text().splitlines())]
        self._connections, self._ssb = self._rows("connections"), self._rows("ssb")
        self._packets = self._rows("packets") if self._model is None else []

    def _rows(self, name: str) -> list[dict[str, Any]]:
        path = self._run.tables / f"{name}.parquet" / f"layering={self._layering}"
        return pq.read_table(path, partitioning=None).to_pylist() if path.exists() else []

    def at(self, times: Iterable[int], nodes: list[str]) -> Iterator[dict[str, Rows]]:
        """Yield what there is at each of some ascending times, by node."""
        waiting = defaultdict(list)
        if self._model is not None:
            for row in self._model.seen:
                waiting[self._model.owner[row["interface"]]].append(row)
        pits = {node: Pit() for node in nodes}
        for time in times:
            now = self._start + time
            found: dict[str, Rows] = {node: self._counted(node, now) for node in nodes}
            for node, pit in pits.items():
                while waiting[node] and waiting[node][0]["time"] <= now:
                    pit.receive(waiting[node].pop(0))
                if self._model is not None:
                    pit.run_until(now)
                    found[node] |= self._pit(pit)
            for what in (self._clocks(now), self._sessions(now), self._open(now), self._contracts(now)):
                for node, table, key, value in what:
                    found[node][table, key] = value
            yield found

    def down(self, time: int) -> set[str]:
        """Return the links that are down."""
        broken: set[str] = set()
        for row in self._timeline:
            if row["time_ns"] <= time and row["event"] in ("link-down", "link-up"):
                (broken.add if row["event"] == "link-down" else broken.discard)(row["link"])
        return broken

    def senders(self, node: str, label: str) -> set[str] | None:
        """Return from which neighbours a feed may come to a node; None if that is not told here."""
        if self._model is None:
            return None
        feed = next(name for name, own in self._labels.items() if own == label)
        hops = [hop for (own, _), ways in self._model.ways.items() if own == feed for hop in ways]
        return {sender for sender, receiver, _ in hops if receiver == node}

    def _counted(self, node: str, now: int) -> Rows:
        lines = self._counters[node]
        place = bisect_right([line["time"] for line in lines], now)
        if place == 0:
            return {}
        line = lines[place - 1]
        found: Rows = {("counter", key): [value] for key, value in flat(line)}
        found["counter", "counted at, s"] = [round((line["time"] - self._start) / 1e9, 6)]
        return found

    def _said(self, name: tuple[bytes, ...]) -> str:
        for length in range(len(name), 0, -1):
            label = self._labels.get(Name.to_str(list(name[:length])))
            if label is not None:
                return label + "".join("/" + Component.to_str(each) for each in name[length:])
        return Name.to_str(list(name))

    def _pit(self, pit: Pit) -> Rows:
        found: Rows = {}

        def at(interfaces: Iterable[str]) -> list[str]:
            assert self._model is not None
            return sorted(self._model.peer[each] for each in interfaces)

        def until(expiry: int) -> int:
            return -1 if expiry >= NEVER else expiry - self._start

        for (name, can_be_prefix, must_be_fresh), entry in pit.classic.items():
            flags = " CanBePrefix" * can_be_prefix + " MustBeFresh" * must_be_fresh
            asked = [at(entry["ins"]) or ["an application"], at(entry["outs"]) or ["–"]]
            if is_there(entry):
                found["interest", self._said(name) + flags] = [*asked, until(entry["expiry"])]
        for name, feed in pit.feeds.items():
            label = self._said(name)
            for interface, held in feed["down"].items():
                own = [held["next"], held["limit"], min(held["limit"] - held["next"] + 1, MOST_CREDIT)]
                own += [len(held["again"]), until(held["expiry"]), "yes" if held["told"] else "no"]
                found["downstream", f"{label}\t{at([interface])[0]}"] = own
            for interface, up in feed["ups"].items():
                own = [up["head"], up["limit"], len(up["missing"]), until(up["expiry"])]
                found["upstream", f"{label}\t{at([interface])[0]}"] = [*own, "no" if up["over"] else "yes"]
        ranges = sum(len(feed["down"]) for feed in pit.feeds.values())
        pit.write_down()
        entries, size, credit = pit.states[pit.now]
        found["total", ""] = [entries, size, ranges, credit]
        assert credit == sum(map(left, pit.feeds.values()))
        return found

    def _clocks(self, now: int) -> Iterator[tuple[str, str, str, list[Any]]]:
        seen = [(x["time"], x["node"], x["feed"], x["seq"]) for x in self._ssb if x["kind"] == "data"]
        if self._model is not None:
            own = (x for x in self._model.packets if x["kind"] == "data" and x["feed"] is not None)
            seen += [(x["time"], self._model.owner[x["interface"]], x["feed"], x["seq"]) for x in own]
        noted = [x for x in self._events if x["event"] in ("published", "delivered")]
        seen += [(x["time"], x["node"], x["feed"], x["seq"]) for x in noted]
        clocks: dict[tuple[str, str], list[int]] = defaultdict(list)
        for time, node, feed, seq in sorted(seen, key=lambda row: row[0]):
            if time <= now and feed in self._labels and seq is not None:
                clocks[node, feed].append(seq)
        for (node, feed), seqs in clocks.items():
            missing = set(range(seqs[0], max(seqs))) - set(seqs)
            came = [x for x in noted if (x["node"], x["feed"], x["event"]) == (node, feed, "delivered")]
            delivered = sum(x["time"] <= now for x in came)
            yield node, "feed", self._labels[feed], [max(seqs), len(missing), delivered]

    def _ends(self) -> dict[str, str]:
        return {x["src" if x["direction"] == "out" else "dst"]: x["node"] for x in self._connections}

    def _sessions(self, now: int) -> Iterator[tuple[str, str, str, list[Any]]]:
        node_of, last = self._ends(), {}
        held: dict[tuple[Any, ...], dict[str, str]] = defaultdict(dict)
        for note in sorted(self._ssb, key=lambda row: (row["time"], row.get("note") or 0)):
            sender, peer = node_of.get(note["src"]), node_of.get(note["dst"])
            is_own = note["direction"] == "out" and note["node"] == sender and note.get("eager") is not None
            if is_own and peer is not None and note["time"] <= now:
                own = held[note["src"], note["src_port"], note["dst"], note["dst_port"]]
                own |= {word[1:]: word[0] for word in (note["turned"] or "").split()}
                last[sender, peer] = [note["eager"], note["lazy"]], own
        signs: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for (sender, peer), (value, own) in last.items():
            yield str(sender), "session", peer, value
            assert value == [sum(sign == mode for sign in own.values()) for mode in "+-"]
            if any(node == sender and key.startswith(f"{peer}, ") for node, _, key, _ in self._open(now)):
                for feed, sign in own.items():
                    signs[str(sender), self._labels.get(feed, feed)][sign].add(peer)
        for (sender, label), peers in signs.items():
            if peers["+"] or peers["-"]:
                yield sender, "side", label, [sorted(peers[mode]) or ["–"] for mode in "+-"]

    def _open(self, now: int) -> Iterator[tuple[str, str, str, list[Any]]]:
        node_of = self._ends()
        for row in self._connections:
            is_open = (row["opened"] or 0) <= now and (row["closed"] is None or row["closed"] > now)
            if row["direction"] and is_open:
                own, other = ("src", "dst") if row["direction"] == "out" else ("dst", "src")
                peer = node_of.get(row[other], row[other])
                key = f"{peer}, ports {row['src_port']} to {row['dst_port']}"
                yield row["node"], "connection", key, [row["node"] if own == "src" else peer]

    def _contracts(self, now: int) -> Iterator[tuple[str, str, str, list[Any]]]:
        writers: dict[str, str] = {}
        own = (x for x in self._packets if x["kind"] == "control" and x["direction"] == "out")
        for row in sorted(own, key=lambda row: row["time"]):
            if row["time"] <= now:
                writers.setdefault(row["name"], row["node"])
        words = {name: words for words, every in COMMANDS.items() for name in every}
        said = ((node, words.get(name.rpartition("/")[2])) for name, node in writers.items())
        written = Counter((node, command) for node, command in said if command is not None)
        for (node, command), number in written.items():
            yield node, "contract", command, [number]


def by_node(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return rows by their nodes, in order of time."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["time"]):
        found[row["node"]].append(row)
    return found


def flat(line: dict[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a line of counters.jsonl, as the page has them."""
    for name, value in line.items():
        path = (*before, name)
        if isinstance(value, dict):
            yield from flat(value, path)
        elif path not in (("time",), ("node",)):
            yield " ".join(path).replace("_", " "), len(value) if isinstance(value, list) else value


def compared(truth: Truth, moments: list[tuple[int, dict[str, list[Any]]]]) -> tuple[Counter[str], list[str]]:
    """Compare what a player shows at some ascending times, by node; the network's node is "".

    Returns how many rows of each table were compared, and the differences in words.
    """
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    nodes = [node for node in moments[0][1] if node]
    for (time, shown), wanted in zip(moments, truth.at((time for time, _ in moments), nodes), strict=True):
        links = {key for table, key, _ in shown[""] if table == "link"}
        counts["link"] += len(links)
        if links != truth.down(time):
            wrong.append(f"{time}: links down {links}, {truth.down(time)}")
        for node in nodes:
            own, right = {}, wanted[node]
            for table, key, value in shown[node]:
                counts[table] += 1
                if table == "route":
                    senders = truth.senders(node, key)
                    if senders is not None and value[0] not in senders:
                        wrong.append(f"{time} {node} route {key}: {value}, {senders}")
                elif table in ("interest", "side"):
                    own[table, key] = [*(sorted(names.split(", ")) for names in value[:2]), *value[2:]]
                else:
                    own[table, key] = value
            for place in own.keys() | right.keys():
                if own.get(place) != right.get(place) and not is_nothing(place, own, right):
                    wrong.append(f"{time} {node} {place}: {own.get(place)}, {right.get(place)}")
    return counts, wrong


def is_nothing(place: tuple[str, str], own: Rows, right: Rows) -> bool:
    """Return whether there is nothing, and one says so by no row: a PIT that is empty, or a session whose
    connection has been closed.
    """
    table, key = place
    if table == "session" and own.get(place) == [0, 0]:
        return not any(name == "connection" and each.startswith(f"{key}, ") for name, each in right)
    return table == "total" and not any(own.get(place) or ()) and not any(right.get(place) or ())
