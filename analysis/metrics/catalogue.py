"""The catalogue of metrics: title, unit and direction of each, and which values are not comparable."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from analysis.metrics.own import own_metrics


class Metric(NamedTuple):
    """A row of the comparison.

    `better` is "lower", "higher", or "" for neither; `axis` is a short name. Layerings are
    compared on all metrics with both.
    """

    group: str
    key: str
    title: str
    unit: str
    better: str
    axis: str = ""


DELIVERY, _LATENCY, _PIT, _UPSTREAM = "Delivery", "Latency", "State: the PIT", "Upstream packets"

OTHER = "other"
STATE_KINDS = {
    "pit": "Interests that wait",
    "llis": "long-lived Interests",
    "sources": "sources of feeds",
    "routes": "routes",
    "strategies": "strategies of prefixes",
    "ends": "ends of feeds",
    "connections": "connections",
    "exchanges": "feeds on connections",
    "messages": "messages for others",
    "statements": "follows and blocks",
    "trees": "multicast trees",
    "repairs": "segments that are asked for",
    "feeds": "feeds of tinySSB",
    "packets": "packets for others",
    "contents": "contents beside logs",
    OTHER: "other",
}
"""Kinds of state, and their words: docs/architecture.md. `other` takes those of layerings from elsewhere."""

OVER_NDN = (_PIT, _UPSTREAM)
"""Groups of metrics only for layerings over NDN: others have no PIT."""

_OF_KINDS = "\n".join(
    f"  state_bytes_{kind} | of which {words} | bytes |" for kind, words in STATE_KINDS.items()
)
_ROWS = f"""
{DELIVERY}
  published | Items published | items |
  delivered | Items delivered, to all subscribers | items | higher
  delivered_share | Share of expected deliveries | % | higher | share delivered
  fell_behind | Subscribers that fell behind | subscribers | lower
  cut_off | Subscribers cut off by the end of the run | subscribers | lower
  twice | Items delivered twice | items | lower
  out_of_order | Items delivered out of order | items | lower
  beyond_fork | Items accepted after a feed’s fork | items | lower
  lacking | Items of an author’s two devices that subscribers lack | items | lower
  forked | Subscriptions ended by the proof of a fork | subscriptions | | proofs of the fork
  errors | Errors reported to applications | errors | lower
{_LATENCY}
  latency_p50 | Latency, publish or join to delivery, median | ms | lower | median latency
  latency_p95 | Latency, 95th percentile | ms | lower | 95th percentile of latency
  latency_p99 | Latency, 99th percentile | ms | lower | 99th percentile of latency
  latency_max | Latency, maximum | ms | lower
  bound_p50 | Delay of the unloaded path, median | ms |
  latency_ratio_p50 | Latency, per path delay, median | ms/ms | lower
  latency_ratio_p95 | Latency, per path delay, 95th percentile | ms/ms | lower
  latency_fairness | Fairness of tinySSB’s latency between subscribers, Jain’s index | of 1 | higher
  first_item_p50 | First item after joining, median | ms | lower | wait for the first item
  first_item_max | First item after joining, maximum | ms | lower
  recovery_p50 | Longest gap after a failure, median of subscribers | ms | lower
  recovery_max | Longest gap after a failure | ms | lower | longest gap
  late_share | Items that come after a newer one of any feed | % | lower
  late_by_max | The newer one is newer by, maximum | ms | lower
Views of an application
  view_changed_share | Messages that change what the reader has seen before | % | lower | changes of the past
  view_reordered_share | Posts that change the order of other posts of a thread | % | lower
  view_moved_p50 | Earlier messages that one late message changes, median | messages | lower
  view_moved_max | Earlier messages that one late message changes, maximum | messages | lower
  view_late_p50 | Time for which the past was shown before it changed, median | ms | lower \
    | age of a changed past
  view_late_max | Time for which the past was shown before it changed, maximum | ms | lower
  view_unequal_mean | Pairs of readers with unequal views, mean | % | lower | pairs with unequal views
  view_unequal_end | Pairs of readers with unequal views at the end | % | lower
  view_settled | Time from the last message until all views are equal | ms | lower | time to equal views
  view_orders | Sets of messages that gave several views | sets | lower
Pictures
  pictures_share | Share of expected pictures | % | higher | share of pictures
  picture_p50 | Latency, publish or join to the picture, median | ms | lower | median latency of pictures
  picture_p95 | Latency of pictures, 95th percentile | ms | lower
  picture_bytes | Bytes on the wire for pictures, per picture that arrived | bytes | lower | bytes per picture
  picture_again | Bytes of pictures that a link carried again | % | lower
  picture_author_bytes | Bytes sent by a picture’s author, per byte of the picture | bytes | lower \
    | bytes from authors
  picture_from_authors | Bytes of pictures that authors served | % |
  picture_from_others | of which other people’s nodes | % |
  picture_from_relays | of which nodes that neither post nor read | % |
State
  state_entries_mean | State entries, mean of a node | entries | lower | state entries
  state_entries_peak | State entries, peak of a node | entries | lower
  state_entries_network | State entries, mean of the whole network | entries | lower
  state_entries_network_peak | State entries, peak of the whole network | entries | lower
  state_bytes_mean | State bytes, mean of a node | bytes | lower | state bytes
{_OF_KINDS}
  state_bytes_peak | State bytes, peak of a node | bytes | lower
  state_bytes_network | State bytes, mean of the whole network | bytes | lower
  state_bytes_network_peak | State bytes, peak of the whole network | bytes | lower
{_PIT}
  pit_entries_mean | PIT entries, mean of a node | entries | lower
  pit_entries_peak | PIT entries, peak of a node | entries | lower
  pit_entries_per_feed | PIT entries, peak of a node, per feed there | entries | lower
  pit_entries_network | PIT entries, mean of the whole network | entries | lower
  pit_entries_network_peak | PIT entries, peak of the whole network | entries | lower
  pit_bytes_mean | PIT bytes, mean of a node | bytes | lower
  pit_bytes_peak | PIT bytes, peak of a node | bytes | lower
  pit_bytes_network | PIT bytes, mean of the whole network | bytes | lower
  pit_bytes_network_peak | PIT bytes, peak of the whole network | bytes | lower
  pit_lifetime_p50 | Lifetime of a PIT entry, median | ms |
  pit_lifetime_p95 | Lifetime of a PIT entry, 95th percentile | ms |
  pit_satisfied_share | PIT entries that Data ended | % | higher
  pit_expired_share | PIT entries that expired | % | lower
  pit_nacked_share | PIT entries that Nacks ended | % | lower
  pit_aggregation | Interests that came in, per Interest passed on | Interests |
  pit_credit_mean | Items that a node may still send down, mean | items |
  pit_renewals_per_item | LLIs that renewed credit, per delivered item | LLIs |
Finding feeds
  fib_entries_mean | Routes, mean of a node | routes | lower | routes of a node
  map_records | Records of a name service, peak of a node | records |
  resolver_entries | Records in a resolver, peak of a node | records |
  stored_bytes | Messages stored for others, or packets of tinySSB, peak of a node | bytes | | stored bytes
  moves | Moves: links that came up | moves |
  route_changes | Routes that changed, all nodes | routes | lower
  signalling_messages | Messages of a name service, and hellos, over links | messages | lower
  signalling_per_move | Routes that changed, and all signalling messages of the run, per move | messages \
    | lower | signalling
  stale_p50 | Time that readers went on with an old record, median | ms | lower
  stale_max | Time that readers went on with an old record, maximum | ms | lower
Replicas and caches
  replicas | Messages held for others, peak of a node, mean over nodes | messages | lower | replicas
  replica_bytes | Bytes of messages held for others | bytes | lower
  statements | Follows and blocks known, peak of a node, mean over nodes | statements | lower
  asked_holders | Nodes with contents that their author asks to delete, most at a time | nodes |
  asked_holders_end | Nodes with such contents when the last item is published | nodes | lower \
    | nodes with contents to be deleted
  cache_hits | Interests that content stores answered | % |
  split_share | Interests that were aggregated and forwarded nevertheless | % | lower
Privacy
  witnesses | Third nodes that learn who reads whom | nodes | lower
  witnessed_most | Most subscriptions that one third node learns of | subscriptions | lower \
    | subscriptions known to a third node
{_UPSTREAM}
  interests_per_item | Interests sent by subscribers’ nodes, per delivered item | Interests | lower
  interests_network | Interests over links, all nodes, per delivered item | Interests | lower \
    | Interests per item
  interests_per_link | Interests over a link, per item over it | Interests | lower
  interests_per_window | Interests over a link, per credit window | Interests | lower
On the wire
  frames_per_item | Frames on the wire, per delivered item | frames | lower | frames per item
  bytes_per_item | Bytes on the wire, per delivered item | bytes | lower | bytes per item
  bound_bytes_per_item | Least possible bytes, per delivered item | bytes |
  wire_ratio | Bytes on the wire, per least possible byte | bytes | lower
  useful_share | Bytes that brought a node an item it lacked | % | higher
  repeated_share | Item packets sent over a link again | % | lower | repeated packets
  duplicate_share | Item packets to a node that had the item | % | lower
  control_per_item | Control messages over links, per delivered item | messages | lower
  asking_per_item | Vectors, novelties and claims of tinySSB, per delivered item | bytes | lower \
    | request bytes per item
  want_bytes | A want vector of tinySSB, mean | bytes |
  airtime_per_item | Time on air, per delivered item | ms | lower | time on air
  connections | TCP connections opened | connections |
  overhead_ratio | Bytes on the wire, per byte of message delivered | bytes | lower
Sharing a link
  link_use | Busiest link, share of its rate | % | | use of the busiest link
  throughput | Throughput of a flow, mean | kbit/s | higher
  fairness | Fairness between flows, Jain’s index | of 1 | higher | fairness
  queue_p50 | Queue at the busiest link, median | bytes | lower
  queue_p99 | Queue at the busiest link, 99th percentile | bytes | lower | 99th percentile of the queue
  queue_max | Queue at the busiest link, maximum | bytes | lower
Processor
  cpu_per_item | CPU per delivered item, all nodes | ms | lower | CPU
  processor_most | Busy time of the busiest node’s processor | % | lower
  processor_mean | Busy time of a node’s processor, mean | % | lower
  verified_per_item | Signatures verified, per delivered item | signatures | lower
Measurement
  capture_drops | Frames that the capture dropped | frames | lower
"""
"""Below each group: key, title, unit, direction and, if it has one, axis of each metric; see Metric."""


def _listed(rows: str) -> Iterator[Metric]:
    group = ""
    for row in rows.strip().splitlines():
        key, *cells = (cell.strip() for cell in row.split("|"))
        if cells:
            yield Metric(group, key, *cells)
        else:
            group = key


_FEEDNETS = tuple(_listed(_ROWS))

OWN = own_metrics({metric.key: metric for metric in _FEEDNETS})
"""Metrics of other distributions."""

METRICS = (
    *_FEEDNETS,
    *(
        Metric("Of other packages", key, own.title, own.unit, own.better, own.axis)
        for key, (_, own) in OWN.items()
    ),
)
"""Every metric of the comparison, in order. An Interest is a classic one or an LLI; "PIT entries" are classic
entries and feeds; "a node" is the mean, or maximum, over all nodes of the topology. State is defined in
docs/architecture.md, and sampled; PITs are followed packet by packet. Lifetimes are of entries that have
lasted and ended, shares of ended entries, at all nodes; an LLI that renews counts at both ends of its
link. Protocols declare their control messages (analysis/decode/protocols): of NDN, Interests, LLIs, Nacks,
Hellos, and frames with only FeedStates or acknowledgements; TCP's own overhead is in frames and bytes.
analysis/metrics/run/moves.py explains the metrics of finding feeds. Undefined metrics (recovery without a
failure) are null for all layerings of a run.
"""

BY_KEY = {metric.key: metric for metric in METRICS}

MATTERS = 0.05
"""Relative difference that matters: values within it count as equal, but for counts of what went wrong."""

WHOLE = 99.5
"""Minimum share of expected deliveries, in %, for a complete run."""


UNFINISHED = ("delivered_share", "fell_behind", "cut_off")
"""The metrics that why_unranked() takes."""


def why_unranked(values: Mapping[str, float | None]) -> str:
    """Return in a few words why a layering's times are not comparable, "" if they are.

    `values` are its metrics by key. A growing queue makes latency a measure of the run's length, and missing
    items have no latency: leaving out the slowest items makes nothing faster.
    """
    said = []
    if values.get("fell_behind"):
        said.append("fell behind")
    if values.get("cut_off"):
        said.append("cut off by the end of the run")
    share = values.get("delivered_share")
    if not said and share is not None and share < WHOLE:
        said.append(f"delivered {share:.3g} %")
    return ", ".join(said)


def matters(metric: Metric) -> float:
    """Return the relative difference that usually matters: of deliveries and faults, each one does."""
    if metric.key == "delivered_share":
        return 1 - WHOLE / 100
    return 0.0 if metric.group == DELIVERY else MATTERS


def is_time(metric: Metric) -> bool:
    """Return whether why_unranked() applies to a metric."""
    return metric.group == _LATENCY and metric.better != ""
