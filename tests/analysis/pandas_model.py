"""Every metric of the comparison once more, in pandas and plain Python: slow, obvious, and without Spark.

Written from what docs/tables.md and the metrics' titles say. Nothing of analysis/ is imported: packets come
from pandas_packets, PIT tables from pandas_pit. Times stay int64: a float does not hold nanoseconds.
"""

import base64
import json
from collections.abc import Iterator
from functools import cached_property
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
import pandas as pd
import view_models
from ndn.encoding import Name
from pandas_packets import frames, notices, packets
from pandas_pit import Pit, follow, mean_and_peak, together

ITEM = ["feed", "seq"]


def paths(links: list[dict[str, Any]], roots: set[str], end: str) -> Iterator[tuple[Any, list[Any]]]:
    """Yield each way from a root to `end` that visits no node twice: how it ranks, and its hops."""
    ways = [(link["a"], link["b"], link) for link in links] + [(x["b"], x["a"], x) for x in links]

    def back(node: str, seen: tuple[str, ...], hops: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
        if node in roots:
            yield (sum(round(link["delay_ms"] * 1e6) for _, _, link in hops), len(hops), seen), hops
            return
        for sender, receiver, link in ways:
            if receiver == node and sender not in seen:
                yield from back(sender, (*seen, sender), [*hops, (sender, receiver, link)])

    return back(end, (end,), [])


def per(number: Any, of: Any) -> float | None:
    """Divide; None where that means nothing."""
    return number / of if of and number is not None and not pd.isna(number) else None


def quantile(values: Any, share: float) -> float | None:
    """Return a quantile, interpolated between the two nearest ranks."""
    values = [value for value in values if value is not None]
    return float(np.quantile(np.array(values, np.float64), share)) if values else None


def quarters(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Cut rows into four parts; of a remainder the first parts have one more each."""
    size, more = divmod(len(rows), 4)
    ends = [size * k + min(k, more) for k in range(5)]
    return [rows.iloc[begin:end] for begin, end in pairwise(ends)]


class Model:
    """One layering of a run."""

    def __init__(self, run: Path, layering: str) -> None:
        self.manifest = json.loads((run / "manifest.json").read_text())
        self.run = run
        self.layering, self.turn = layering, self.manifest["runs"][layering]
        self.start, self.end = self.turn["start_ns"], self.turn["end_ns"]
        first, last = self.turn["first_ns"], self.turn["last_ns"]
        self.publishing = (first, last if last > first else self.end)
        topology, load = self.manifest["topology"], self.manifest["workload"]
        self.links, self.roles = topology["links"], {x["name"]: x["role"] for x in topology["nodes"]}
        self.fork = self.manifest.get("fork") or {"feed": None, "after": None, "publisher": None}
        self.cross = {x["feed"]: (x["from"], x["to"]) for x in load.get("cross_traffic", [])}
        self.roots = {x["feed"]: {x["publisher"]} for x in load["feeds"]}
        self.owner, self.peer, self.rate = {}, {}, {}  # of each interface; the rate in ns a byte
        for link in self.links:
            for at, node, peer in (("interface_a", "a", "b"), ("interface_b", "b", "a")):
                self.owner[link[at]], self.peer[link[at]] = link[node], link[peer]
                if link["bw_mbit"]:
                    self.rate[link[at]] = (8000 / link["bw_mbit"], link["max_queue_size"])
        lines = (run / layering / "events.jsonl").read_text().splitlines()
        self.events = pd.DataFrame(map(json.loads, lines)).astype({"time": "int64", "seq": "int64"})
        breaks: dict[str, list[tuple[int, str]]] = {at: [] for at in self.owner}
        self.timeline = [x for x in self.manifest["timeline"] if x.get("layering", layering) == layering]
        for what in self.timeline:
            for at, node in self.owner.items():
                is_link = what.get("link") in (f"{node}--{self.peer[at]}", f"{self.peer[at]}--{node}")
                is_node = what["event"] == "restart" and what.get("node") in (node, self.peer[at])
                if is_node or (is_link and what.get("signalled")):
                    kind = "peer" if is_node and what["node"] != node else what["event"]
                    breaks[at].append((self.start + what["time_ns"], kind))
        self.frames = frames(run / layering / "capture.pcapng")
        self.packets = packets(self.frames, {at: [time for time, _ in all_] for at, all_ in breaks.items()})
        own = [
            {"time": time, "frame": 0, "interface": at, "direction": "in", "kind": kind, "credit": None}
            for at, all_ in breaks.items()
            for time, kind in all_
        ]
        self.seen = sorted(
            [*own, *self.packets, *notices(self.frames)], key=lambda row: (row["time"], row["frame"])
        )
        named = [row for row in self.packets if row["kind"] == "data" and row["feed"] is not None]
        self.items = pd.DataFrame(named, columns=[*ITEM, *(named or self.packets)[0]][2:]).astype(
            {"seq": "int64"}
        )
        least = self.items.groupby(ITEM)[["ndn_bytes", "frame_bytes"]].min()
        self.sizes = {
            item: row.ndn_bytes + 42 if row.ndn_bytes <= 1472 else row.frame_bytes
            for item, row in least.iterrows()
        }

    @cached_property
    def ways(self) -> dict[tuple[str, str], list[Any]]:
        """The hops from each feed's publisher to each node that may have it."""
        takers = [
            *self.manifest["workload"]["expected"],
            *(n for n, r in self.roles.items() if r == "archive"),
        ]
        wanted = [(feed, roots, end) for feed, roots in self.roots.items() for end in takers]
        wanted += [(feed, {sender}, receiver) for feed, (sender, receiver) in self.cross.items()]
        found = {}
        for feed, roots, end in wanted:
            second = {self.fork["publisher"]} if feed == self.fork["feed"] else set()
            found[feed, end] = min(paths(self.links, roots | second, end), key=lambda way: way[0])[1]
        return found

    @cached_property
    def deliveries(self) -> list[dict[str, Any]]:
        """The first delivery of each item to each node, with what it was for, and its latency and bound."""
        of = {
            kind: self.events[self.events["event"] == kind] for kind in ("published", "joined", "delivered")
        }
        published = of["published"].groupby(ITEM)["time"].min().to_dict()
        joined = of["joined"].groupby(["node", "feed"])["time"].min().to_dict()
        first = of["delivered"].sort_values("time", kind="stable").drop_duplicates(["node", *ITEM])
        rows = []
        for row in first.to_dict("records"):
            node, feed, seq = row["node"], row["feed"], row["seq"]
            if (feed, seq) not in published:
                continue
            begun, hops = published[feed, seq], self.ways.get((feed, node), [])
            purpose = "subscribed"
            if feed in self.cross:
                purpose = "cross"
            elif feed == self.fork["feed"] and seq > self.fork["after"]:
                purpose = "beyond"
            elif self.roles[node] == "archive":
                purpose = "archived"
            bound = None
            if hops and (feed, seq) in self.sizes:
                sending = sum(8000 / link["bw_mbit"] for _, _, link in hops if link["bw_mbit"])
                bound = sum(round(link["delay_ms"] * 1e6) for _, _, link in hops)
                bound += round(self.sizes[feed, seq] * sending)
            late = row["time"] - max(begun, joined.get((node, feed), begun))
            rows.append(row | {"purpose": purpose, "published": begun, "late": late, "bound": bound})
        return rows

    def delivery(self) -> dict[str, Any]:
        own = [row for row in self.deliveries if row["purpose"] == "subscribed"]
        published = self.events[(self.events["event"] == "published") & self.events["feed"].isin(self.roots)]
        twice = late = 0
        seen: dict[Any, set[int]] = {}
        for row in self.events[self.events["event"] == "delivered"].to_dict("records"):
            had = seen.setdefault((row["node"], row["feed"]), set())
            twice += row["seq"] in had
            late += row["seq"] not in had and row["seq"] < max(had, default=0)
            had.add(row["seq"])
        forked = self.events[self.events["event"] == "forked"]
        return {
            "published": len(published.drop_duplicates(ITEM)),
            "delivered": len(own),
            "delivered_share": per(len(own) * 100, sum(self.manifest["workload"]["expected"].values())),
            **self.keeping_up(own),
            "twice": twice,
            "out_of_order": late,
            "beyond_fork": sum(row["purpose"] == "beyond" for row in self.deliveries),
            "lacking": self.lacking(own),
            "forked": len(forked.drop_duplicates(["node", "feed"])),
            "errors": int((self.events["event"] == "error").sum()),
            "capture_drops": self.turn["capture"]["dropped"],
        }

    def lacking(self, own: list[dict[str, Any]]) -> int | None:
        """What an author wrote on two devices, for each subscriber, without what these have."""
        load = self.manifest["workload"]
        if load["written"] is None:
            return None
        beyond = [row for row in self.deliveries if row["purpose"] == "beyond"]
        return load["written"] * load["subscribers"] - len(own) - len(beyond)

    def keeping_up(self, own: list[dict[str, Any]]) -> dict[str, int]:
        """How many subscribers fell behind, and how many were cut off (analysis/metrics/saturation.py says
        when)."""
        load, behind, cut = self.manifest["workload"], 0, 0
        ended = self.turn["stop_ns"]
        moment = min(10**9, (ended - self.turn["settle_ns"]) // 2)
        for node in set(load["expected"]) - set(load["paced"]):
            rows = sorted((row["published"], row["time"], row["late"]) for row in own if row["node"] == node)
            cut += len(rows) < load["expected"][node] and any(time > ended - moment for _, time, _ in rows)
            there = pd.DataFrame(
                [(made, late) for made, time, late in rows if late == time - made], columns=["made", "late"]
            )
            if len(there) >= 40:
                a, b, c, d = (part["late"].median() for part in quarters(there))
                begin, *_, end = (part["made"].median() for part in quarters(there))
                grows = there["made"].rank().corr(there["late"].rank()) >= 0.8
                much = d >= 2 * a and d - a >= (end - begin) / 100
                behind += bool(grows and much and min(c - b, d - c) >= (d - a) / 10)
        return {"fell_behind": behind, "cut_off": cut}

    def latency(self) -> dict[str, Any]:
        own = [row for row in self.deliveries if row["purpose"] == "subscribed"]
        late = [row["late"] / 1e6 for row in own]
        bounds = [row["bound"] / 1e6 for row in own if row["bound"] is not None]
        ratios = [row["late"] / row["bound"] for row in own if row["bound"]]
        waits = []
        for join in self.events[self.events["event"] == "joined"].to_dict("records"):
            pair = [row for row in own if (row["node"], row["feed"]) == (join["node"], join["feed"])]
            after = [(row["time"], row["published"]) for row in pair if row["time"] >= join["time"]]
            if after:
                came, made = min(after)
                waits.append((came - max(join["time"], made)) / 1e6)
        gaps = [gap / 1e6 for gap in self.gaps(own)]
        return {
            "latency_p50": quantile(late, 0.5),
            "latency_p95": quantile(late, 0.95) if len(late) >= 59 else None,
            "latency_p99": quantile(late, 0.99) if len(late) >= 299 else None,
            "latency_max": max(late, default=None),
            "bound_p50": quantile(bounds, 0.5),
            "latency_ratio_p50": quantile(ratios, 0.5),
            "latency_ratio_p95": quantile(ratios, 0.95) if len(late) >= 59 else None,
            "first_item_p50": quantile(waits, 0.5),
            "first_item_max": max(waits, default=None),
            "recovery_p50": quantile(gaps, 0.5),
            "recovery_max": max(gaps, default=None),
            **self.insertions(own),
        }

    def insertions(self, own: list[dict[str, Any]]) -> dict[str, float | None]:
        """Items that came to a node when it had a newer one, and how much newer its newest was."""
        by = []
        for row in own:
            had = [other for other in own if other["node"] == row["node"] and other["time"] < row["time"]]
            newer = max((other["published"] for other in had), default=0) - row["published"]
            by += [newer / 1e6] if newer > 0 else []
        return {"late_share": per(len(by) * 100, len(own)), "late_by_max": max(by, default=None)}

    def gaps(self, own: list[dict[str, Any]]) -> list[int]:
        """After each break, of each node that has anything: how long nothing came of what was due."""
        broke = {self.start + x["time_ns"] for x in self.timeline if x["event"] in ("link-down", "restart")}
        made = self.events[self.events["event"] == "published"].groupby(ITEM)["time"]
        worst: dict[Any, int] = {}
        for node, feed in {(row["node"], row["feed"]) for row in own}:
            came = sorted(
                (r["time"], r["seq"], r["published"]) for r in own if (r["node"], r["feed"]) == (node, feed)
            )
            highest = max(seq for _, seq, _ in came)
            last = self.fork["after"] if feed == self.fork["feed"] else 1 << 62
            due = [(s, t) for (f, s), t in made.min().items() if f == feed and highest < s <= last]
            if due:
                came.append((self.end, *min(due)))
            for at, until in pairwise([*sorted(broke), None]):
                for before, (time, _, published) in zip([(0,), *came], came, strict=False):
                    begins = max(at, before[0], published)
                    if time > at and (until is None or begins < until):
                        worst[at, node] = max(worst.get((at, node), 0), time - begins)
        return list(worst.values())

    @cached_property
    def counters(self) -> pd.DataFrame:
        """The lines of counters.jsonl."""
        lines = (self.run / self.layering / "counters.jsonl").read_text().splitlines()
        return pd.DataFrame(map(json.loads, lines))

    @cached_property
    def pits(self) -> dict[str, Pit]:
        """Each node's PIT."""
        by_node: dict[str, list[Any]] = {node: [] for node in self.roles}
        for row in self.seen:
            by_node[self.owner[row["interface"]]].append(row)
        return {node: follow(rows, self.end) for node, rows in by_node.items()}

    def state(self) -> dict[str, Any]:
        feeds: dict[str, set[str]] = {}
        for row in self.deliveries:
            for sender, receiver, _ in self.ways.get((row["feed"], row["node"]), []):
                feeds.setdefault(sender, set()).add(row["feed"])
                feeds.setdefault(receiver, set()).add(row["feed"])
        tables = {node: pit.states for node, pit in self.pits.items()}
        whole, result = together(tables.values()), {}
        for which, what in enumerate(("entries", "bytes")):
            nodes = {n: mean_and_peak(t, which, *self.publishing) for n, t in tables.items()}
            result[f"pit_{what}_mean"] = sum(mean for mean, _ in nodes.values()) / len(nodes)
            result[f"pit_{what}_peak"] = max(peak for _, peak in nodes.values())
            of_all = mean_and_peak(whole, which, *self.publishing)
            result[f"pit_{what}_network"], result[f"pit_{what}_network_peak"] = of_all
        result |= self.held()
        peaks = {n: mean_and_peak(t, 0, *self.publishing)[1] for n, t in tables.items()}
        shares = [peaks[node] / len(there) for node, there in feeds.items()]
        credit = [mean_and_peak(table, 2, *self.publishing)[0] for table in tables.values()]
        return {
            **result,
            "pit_entries_per_feed": max(shares, default=None),
            "pit_credit_mean": sum(credit) / len(credit),
        }

    def held(self) -> dict[str, Any]:
        """State of all kinds: what nodes say holds until they say again."""
        said = self.counters.sort_values("time", kind="stable")
        nodes: dict[str, dict[int, tuple[int, int, int]]] = {}
        by_kind: dict[str, dict[str, dict[int, tuple[int, int]]]] = {kind: {} for kind in KINDS}
        for row in said[["node", "time", "state"]].to_dict("records"):
            sizes = [(kind, size["entries"], size["bytes"]) for kind, size in row["state"].items()]
            every = sum(n for _, n, _ in sizes), sum(size for _, _, size in sizes), 0
            nodes.setdefault(row["node"], {})[row["time"]] = every
            for kind, n, size in sizes:
                by_kind[kind].setdefault(row["node"], {})[row["time"]] = n, size
        result: dict[str, Any] = {}
        for which, what in enumerate(("entries", "bytes")):
            of = [mean_and_peak(table, which, *self.publishing) for table in nodes.values()]
            result[f"state_{what}_mean"] = sum(mean for mean, _ in of) / len(of)
            result[f"state_{what}_peak"] = max(peak for _, peak in of)
            of_all = mean_and_peak(together(nodes.values()), which, *self.publishing)
            result[f"state_{what}_network"], result[f"state_{what}_network_peak"] = of_all
        for kind, tables in by_kind.items():
            of = [mean_and_peak(table, 1, *self.publishing) for table in tables.values()]
            is_there = any(peak for _, peak in of)
            result[f"state_bytes_{kind}"] = sum(mean for mean, _ in of) / len(nodes) if is_there else None
        begun, ended = self.publishing
        if not any(begun <= time < ended for time in said["time"]):
            result |= {name: None for name in result if not name.endswith("peak")}
        return result

    def lives(self) -> dict[str, Any]:
        """What became of the entries of all nodes."""
        lives = [life for pit in self.pits.values() for life in pit.lives]
        ended = [life for life in lives if life["outcome"] != "open"]
        lasted = [(life["closed"] - life["opened"]) / 1e6 for life in ended if life["lasted"]]
        passed_on = [life for life in lives if life["in"] and life["out"]]
        carried = sum(row["purpose"] != "archived" for row in self.deliveries)
        shares = {
            f"pit_{how}_share": per(sum(life["outcome"] == how for life in ended) * 100, len(ended))
            for how in ("satisfied", "expired", "nacked")
        }
        return {
            **shares,
            "pit_lifetime_p50": quantile(lasted, 0.5),
            "pit_lifetime_p95": quantile(lasted, 0.95) if len(lasted) >= 59 else None,
            "pit_aggregation": per(
                sum(life["in"] for life in passed_on), sum(life["out"] for life in passed_on)
            ),
            "pit_renewals_per_item": per(sum(life["renewals"] for life in lives), carried),
        }

    def processors(self) -> dict[str, Any]:
        """How busy processors were while items were published, and signatures, where operations take time."""
        nothing = dict.fromkeys(("processor_most", "processor_mean", "verified_per_item"))
        if "work_busy_ns" not in self.counters.columns:
            return nothing
        begin, end = self.publishing
        shares, verified = [], 0
        for _, told in self.counters.sort_values("time", kind="stable").groupby("node"):
            busy = told["work_busy_ns"].astype("int64").tolist()
            grown = [now if now < then else now - then for then, now in pairwise([0, *busy])]
            within = [each for each, time in zip(grown, told["time"], strict=True) if begin < time <= end]
            shares.append(100 * sum(within) / (end - begin))
            counted = told["work_verified"].astype("int64").tolist()
            verified += sum(now if now < then else now - then for then, now in pairwise([0, *counted]))
        carried = sum(row["purpose"] != "archived" for row in self.deliveries)
        return {
            "processor_most": max(shares),
            "processor_mean": sum(shares) / len(shares),
            "verified_per_item": per(verified, carried),
        }

    def wire(self) -> dict[str, Any]:
        out = self.frames[self.frames["direction"] == "out"]
        asked = out[out["asks"]]
        control = out["asks"] | (out["nacked"] & (out["index"] == 0)) | (out["piece"] == b"")
        of_subscribers = asked["interface"].map(self.owner).map(self.roles).isin(["subscriber", "peer"])
        carried = [row for row in self.deliveries if row["purpose"] != "archived"]
        total, credit = int(out["frame_bytes"].sum()), self.manifest["parameters"].get(self.layering, {})
        credit = credit.get("credit")
        crossed = {
            (row["feed"], row["seq"], sender, receiver)
            for row in self.deliveries
            for sender, receiver, _ in self.ways.get((row["feed"], row["node"]), [])
        }
        known = all((feed, seq) in self.sizes for feed, seq, _, _ in crossed)
        least = sum(int(self.sizes[feed, seq]) for feed, seq, _, _ in crossed) if known else None
        sent = self.items[self.items["direction"] == "out"]
        came = self.items[self.items["direction"] == "in"].sort_values(["time", "frame"])
        came = came.assign(node=came["interface"].map(self.owner))
        firsts = came.drop_duplicates(["node", *ITEM])
        again = len(sent) - len(sent.drop_duplicates(["interface", *ITEM]))
        by_link = per(len(asked), len(crossed))
        return {
            "interests_per_item": per(int(of_subscribers.sum()), len(carried)),
            "interests_network": per(len(asked), len(carried)),
            "interests_per_link": by_link,
            "interests_per_window": by_link * credit if credit and by_link is not None else None,
            "frames_per_item": per(len(out), len(carried)),
            "cpu_per_item": per(sum(self.turn.get("cpu_ns", {}).values()) / 1e6, len(carried)) or None,
            "bytes_per_item": per(total, len(carried)),
            "bound_bytes_per_item": per(least, len(carried)),
            "wire_ratio": per(total, least),
            "useful_share": None if not least else per(int(firsts["frame_bytes"].sum()) * 100, total),
            "repeated_share": per(again * 100, len(sent)),
            "duplicate_share": per((len(came) - len(firsts)) * 100, len(came)),
            "connections": None,  # nothing that is modelled here uses TCP
            "control_per_item": per(int(control.sum()), len(carried)),
            "overhead_ratio": per(total, sum(row["bytes"] for row in carried)),
        }

    @cached_property
    def use(self) -> dict[str, float]:
        """How much of its rate each interface used, in percent."""
        out = self.frames[self.frames["direction"] == "out"].groupby("interface")["frame_bytes"].sum()
        return {
            at: rate * int(out.get(at, 0)) * 100 / (self.end - self.start)
            for at, (rate, _) in self.rate.items()
            if at in out.index
        }

    def finding(self) -> dict[str, Any]:
        """How feeds are found: routes and records from counters.jsonl, messages of the name service."""
        rows = self.counters
        begun = self.publishing[0]

        def peak(name: str) -> float | None:
            return None if name not in rows or rows[name].isna().all() else float(rows[name].max())

        changes = 0.0
        for _, of_node in rows.groupby("node"):
            counts = of_node.sort_values("time")
            grown = counts["route_changes"].diff()
            grown = grown.where(grown >= 0, counts["route_changes"])  # started anew
            changes += grown.iloc[1:][(counts["time"] > begun).iloc[1:]].sum()
        told = {(b"\x08\x03ssb", b"\x08\x03map"), (b"\x08\x08localhop", b"\x08\x03ssb")}
        messages = sum(
            row["direction"] == "out" and row["time"] >= begun and row["name"][:2] in told
            for row in self.packets
        )
        if not messages and peak("map_records") is None:
            messages = None
        moves = sum(x["event"] == "link-up" and self.start + x["time_ns"] >= begun for x in self.timeline)
        stale = []
        of = {kind: self.events[self.events["event"] == kind] for kind in ("mapped", "resolved")}
        for feed, records in of["mapped"].groupby("feed"):
            for time, seq in sorted(zip(records["time"], records["seq"], strict=True))[1:]:
                for _, uses in of["resolved"][of["resolved"]["feed"] == feed].groupby("node"):
                    if uses["time"].min() <= time:
                        used = uses["time"][uses["seq"] >= seq].min()
                        used = self.turn["stop_ns"] if pd.isna(used) else int(used)
                        stale.append(max(used - time, 0) / 1e6)
        return {
            "fib_entries_mean": float(rows["fib_entries"].mean()),
            **{name: peak(name) for name in ("map_records", "resolver_entries", "stored_bytes")},
            "route_changes": changes,
            "signalling_messages": messages,
            "moves": moves or None,
            "signalling_per_move": per(changes + (messages or 0), moves),
            "stale_p50": quantile(stale, 0.5),
            "stale_max": max(stale, default=None),
        }

    def sharing(self, busiest: str | None, step_ns: int) -> dict[str, Any]:
        names = ("throughput", "fairness", "queue_p50", "queue_p99", "queue_max")
        result: dict[str, Any] = {"link_use": max(self.use.values(), default=None), **dict.fromkeys(names)}
        if busiest is None or busiest not in self.use:
            return result
        flows: dict[Any, list[tuple[int, int]]] = {}
        for row in self.deliveries:
            if row["purpose"] != "archived":
                flows.setdefault((row["node"], row["feed"]), []).append((row["time"], row["bytes"]))
        begin = max((min(flow)[0] for flow in flows.values()), default=0)
        end = min((max(flow)[0] for flow in flows.values()), default=0)
        if end > begin and len(flows) > 1:
            rates = np.array([
                sum(size for time, size in flow if begin < time <= end) * 1e9 / (end - begin)
                for flow in flows.values()
            ])  # fmt: skip
            result["throughput"] = rates.mean() * 8 / 1000
            result["fairness"] = per(rates.sum() ** 2, len(rates) * (rates**2).sum())
        return result | self.queue(busiest, step_ns)

    def queue(self, interface: str, step_ns: int) -> dict[str, Any]:
        """Send every frame through a queue of the link's rate and size, and look at it now and then."""
        rate, limit = self.rate[interface]
        waiting: list[
            tuple[int, int]
        ] = []  # of each frame that is taken: when it came, when its last bit left
        most = 0.0
        sent = self.frames[(self.frames["interface"] == interface) & (self.frames["direction"] == "out")]
        for time, size in zip(sent["time"].tolist(), sent["frame_bytes"].tolist(), strict=True):
            ahead = sum(left > time for _, left in waiting[-(limit or 0) - 1 :]) if limit else 0
            if limit is None or ahead < limit:
                free = max(time, waiting[-1][1] if waiting else 0) + round(size * rate)
                waiting.append((time, free))
            if time <= self.end:
                most = max(most, (waiting[-1][1] - time) / rate)
        looks = []
        came = np.array([time for time, _ in waiting], np.int64)
        for now in range(int(sent["time"].iloc[0]), self.end + 1, step_ns):
            place = int(np.searchsorted(came, now, "right"))
            looks.append(max(waiting[place - 1][1] - now, 0) / rate)
        return {
            "queue_p50": quantile(looks, 0.5),
            "queue_p99": quantile(looks, 0.99),
            "queue_max": max(most, *looks),
        }

    def standing(self) -> dict[str, float | None]:
        """Routes, replicas and graphs: the most that a node ever says, and the mean of nodes."""
        told = self.counters
        names = {
            "replicas": ("messages", "entries"),
            "replica_bytes": ("messages", "bytes"),
            "statements": ("statements", "entries"),
        }
        found: dict[str, float | None] = {}
        for name, (kind, what) in names.items():
            sizes = told["state"].map(lambda state, kind=kind, what=what: state.get(kind, {}).get(what))
            found[name] = sizes.groupby(told["node"]).max().mean() if sizes.notna().any() else None

        def total(column: str) -> float:
            if column not in told.columns:
                return 0
            # A node that starts anew counts anew: what it had counted before is the last before a fall.
            values = told.sort_values("time", kind="stable").groupby("node")[column]
            return float(sum(each.shift()[each.diff() < 0].sum() + each.iloc[-1] for _, each in values))

        hits, misses = total("cs_hits"), total("cs_misses")
        joined, split = total("social_joined"), total("social_split")
        found["cache_hits"] = 100 * hits / (hits + misses) if hits + misses else None
        found["split_share"] = 100 * split / joined if joined else None
        return found

    def pictures(self) -> dict[str, float | None]:
        """Pictures: what applications say of them, and the packets under their names, /ssb/blobs/<hash>."""
        of = {kind: self.events[self.events["event"] == kind] for kind in ("shared", "shown", "joined")}
        if of["shared"].empty:
            return dict.fromkeys(PICTURES)
        key = [*ITEM, "detail"]
        made = of["shared"].sort_values("time", kind="stable").drop_duplicates(key)
        came = of["shown"].groupby(["node", *key], as_index=False)["time"].min()
        begun = of["joined"].groupby(["node", "feed"], as_index=False)["time"].min()
        expected = made.merge(begun[["node", "feed"]], on="feed")
        both = came.merge(made[[*key, "time"]], on=key, suffixes=("", "_made"))
        both = both.merge(begun, on=["node", "feed"], suffixes=("", "_joined"))
        late = [
            (row["time"] - max(row["time_made"], row["time_joined"])) / 1e6 for row in both.to_dict("records")
        ]
        size = {name: int(n) for name, n in zip(made["detail"], made["bytes"], strict=True)}
        author = dict(zip(made["detail"], made["node"], strict=True))
        frame_bytes, crossed, served = 0, dict[Any, int](), dict.fromkeys(("authors", "others", "relays"), 0)
        last: dict[Any, str] = {}
        for row in sorted(self.packets, key=lambda row: (row["time"], row["frame"])):
            if row["name"][:2] != (b"\x08\x03ssb", b"\x08\x05blobs"):
                continue
            node, name = self.owner[row["interface"]], Name.to_str(row["name"][:3])
            if row["direction"] == "in":
                last[node, row["name"]] = row["kind"]
                continue
            frame_bytes += row["frame_bytes"]
            link = row["interface"], name
            crossed[link] = crossed.get(link, 0) + row["content"]
            if last.get((node, row["name"])) != "data":
                who = "relays" if self.roles[node] == "forwarder" else "others"
                served["authors" if author.get(name) == node else who] += row["content"]
        again = sum(max(0, n - size.get(name, 0)) for (_, name), n in crossed.items())
        return {
            "pictures_share": per(len(late) * 100, len(expected)),
            "picture_p50": quantile(late, 0.5),
            "picture_p95": quantile(late, 0.95) if len(late) >= 59 else None,
            "picture_bytes": per(frame_bytes, len(late)),
            "picture_again": per(again * 100, sum(crossed.values())),
            "picture_author_bytes": per(served["authors"], sum(size.values())),
            **{f"picture_from_{who}": per(n * 100, sum(served.values())) for who, n in served.items()},
        }

    def views(self) -> dict[str, Any]:
        """Views of the application: what each reader sees after each message, made anew for every arrival."""
        load = self.manifest["workload"]
        kind = load.get("application")
        if not kind:
            return dict.fromkeys(VIEWS)
        lines = (self.run / "feed.jsonl").read_text().splitlines()
        by_key = {each["key"]: each["value"] for each in map(json.loads, lines)}
        feeds = {unquote_to_bytes(x["feed"].rsplit("/", 1)[-1]): x["feed"] for x in load["feeds"]}
        numbers = {
            (feeds[base64.b64decode(value["author"][1 : -len(".ed25519")])], value["sequence"]): key
            for key, value in by_key.items()
        }
        concerned = view_models.concerned(kind, by_key)
        readers = sorted(load["expected"])
        since: dict[str, dict[str, int]] = {node: {} for node in readers}
        shown: dict[str, view_models.Shown] = {node: {} for node in readers}
        now: dict[str, Any] = {node: view_models.now(kind, {}) for node in readers}
        of_sets: dict[Any, list[Any]] = {}
        came, moved, late, reordered = 0, [], [], 0
        unequal = [(self.start, 0)]
        is_told = self.events["event"].isin(["published", "delivered"])
        for row in self.events[is_told].sort_values("time", kind="stable").to_dict("records"):
            node, key = row["node"], numbers.get((row["feed"], row["seq"]))
            if node not in shown or key not in concerned or key in since[node]:
                continue
            before, shown[node] = shown[node], view_models.shown(kind, concerned, [*since[node], key])
            changed = view_models.corrected(kind, before, shown[node], key)
            old = [since[node][k] for k in changed if since[node][k] < row["time"]]
            if row["event"] == "delivered":
                came += 1
                reordered += [k for k in shown[node] if k != key] != [*before]
                moved += [len(old)] if old else []
                late += [(row["time"] - min(old)) / 1e6] if old else []
            since[node][key] = row["time"]
            now[node] = view_models.now(kind, shown[node])
            seen = of_sets.setdefault(frozenset(since[node]), [])
            seen += [] if now[node] in seen else [now[node]]
            differ = sum(now[a] != now[b] for a, b in combinations(readers, 2))
            unequal = [each for each in unequal if each[0] != row["time"]] + [(row["time"], differ)]
        begin, until = self.publishing
        pairs = len(readers) * (len(readers) - 1) // 2
        area = 0
        for (time, number), (end, _) in pairwise([*unequal, (until, 0)]):
            area += number * max(0, min(end, until) - max(time, begin))
        equal = [after for (_, number), (after, _) in pairwise(unequal) if number]
        return {
            "view_changed_share": per(len(late) * 100, came),
            "view_reordered_share": per(reordered * 100, came) if kind == "threads" else None,
            "view_moved_p50": quantile(moved, 0.5),
            "view_moved_max": max(moved, default=None),
            "view_late_p50": quantile(late, 0.5),
            "view_late_max": max(late, default=None),
            "view_unequal_mean": per(area * 100, pairs * (until - begin)),
            "view_unequal_end": per(unequal[-1][1] * 100, pairs),
            "view_settled": None if unequal[-1][1] else max([until, *equal[-1:]]) / 1e6 - until / 1e6,
            "view_orders": sum(len(each) > 1 for each in of_sets.values()),
        }


VIEWS = (
    *("view_changed_share", "view_reordered_share", "view_moved_p50", "view_moved_max", "view_late_p50"),
    *("view_late_max", "view_unequal_mean", "view_unequal_end", "view_settled", "view_orders"),
)
PICTURES = (
    *("pictures_share", "picture_p50", "picture_p95", "picture_bytes", "picture_again"),
    *("picture_author_bytes", "picture_from_authors", "picture_from_others", "picture_from_relays"),
)
KINDS = (
    *("pit", "llis", "sources", "routes", "strategies", "ends", "connections", "exchanges", "messages"),
    *("statements", "trees", "repairs", "feeds", "packets", "contents", "other"),
)
OF_TINY = "asking_per_item", "want_bytes", "airtime_per_item", "latency_fairness"
"""Metrics of tinySSB, which runs over NDN do not have."""
OF_HOLES = "asked_holders", "asked_holders_end"
"""Metrics of contents beside logs, likewise; test_tables.py has these."""
OF_MEETINGS = "witnesses", "witnessed_most"
"""Metrics of peers who meet others, likewise; test_tables.py has these."""


def measures(run: Path, step_ns: int | None = None) -> dict[str, dict[str, float | None]]:
    """Return every metric of every layering of a run; `step_ns` is how often queues are looked at."""
    # A run's queues are those of the interface that uses most of its link, if that is half of it.
    names = json.loads((run / "manifest.json").read_text())["layerings"]
    models = {layering: Model(run, layering) for layering in names}
    used = max((share, at) for model in models.values() for at, share in [*model.use.items(), ("", 0.0)][:-1])
    busiest = used[1] if used[0] >= 50 else None
    step_ns = step_ns or max(1, *((model.end - model.start) // 400 for model in models.values()))
    return {
        layering: model.delivery()
        | model.latency()
        | model.state()
        | model.lives()
        | model.standing()
        | model.wire()
        | model.processors()
        | model.finding()
        | model.sharing(busiest, step_ns)
        | model.pictures()
        | model.views()
        | dict.fromkeys((*OF_TINY, *OF_HOLES, *OF_MEETINGS))
        for layering, model in models.items()
    }
