"""Promised catch-up times after the last event: the bound, and each exception to it.

PLAIN_NS holds for any network without the following:

- legacy forwarders answer nothing, so that each next hop behind them is pulled from in turn, with all tries
  in vain (LEGACY_NS); an LLI waits in one for its lifetime, even if what it asks for was lost, and Interests
  that live for less than PULL_LIFETIME_MS end before all next hops but that one have been tried;
- a forwarder without room for another feed refuses, and is asked again after doubling pauses (QUOTA_NS);
- a permanently dead link, possibly unsignalled: its neighbour is asked until all tries were in vain
  (SILENT_NS);
- slow applications, busy processors, slow links, and applications with little credit or relays with small
  caches, which grant no more than they can keep: the time they need for all items (`_pace`).
"""

from collections import Counter
from typing import NamedTuple

from base.units import MS, SECOND, US
from forwarder.lli.consumer import MAX_RETRY
from forwarder.lli.estimates import MAX_TIMEOUT
from forwarder.lli.upstream import MAX_TRIES, PULL_LIFETIME_MS
from testbed.verify.push.stories.story import Story

PLAIN_NS = 5 * SECOND
LEGACY_NS = MAX_RETRY + MAX_TRIES * MAX_TIMEOUT + MAX_RETRY
QUOTA_NS = LEGACY_NS
SILENT_NS = MAX_RETRY + MAX_TRIES * MAX_TIMEOUT


class Promise(NamedTuple):
    """The promised catch-up time, ns, and whether no exception applies."""

    within: int
    is_plain: bool


def promise(story: Story) -> Promise:
    """Return the promise of a story of controlled push."""
    within = PLAIN_NS
    if not all(node.push for node in story.nodes):
        within = max(within, LEGACY_NS)
        lifetimes = [each.lifetime_ms for each in story.subscribers]
        if lifetimes and min(lifetimes) < PULL_LIFETIME_MS:
            within += max(lifetimes) * MS
    if any(node.cache_feeds < len(story.feeds) for node in story.nodes):
        within = max(within, QUOTA_NS)
    if story.dead:
        within = max(within, SILENT_NS)
    return Promise(within + _pace(story), within == PLAIN_NS)


def _pace(story: Story) -> int:
    """Return the time for all items at the pace of applications, of credit and caches, and of links, ns."""
    published = Counter[int]()
    for step in story.steps:
        if step.do == "publish":
            published[int(step.what[0])] += int(step.what[2])
    most, every = max(published.values(), default=0), published.total()
    applications = max((most * each.pause // each.batch for each in story.subscribers), default=0)
    links = max(
        (every * 8 * _BYTES * 1000 // link.rate_kbit for link in story.links if link.rate_kbit), default=0
    )
    longest = sorted(link.delay for link in story.links)[1 - len(story.nodes) :]
    window = min((node.cache_items for node in story.nodes), default=1)
    rounds = max((-(-most // min(each.credit, window)) for each in story.subscribers), default=0)
    turns = sum(node.turn for node in story.nodes)
    return (applications + links + rounds * 2 * (sum(longest) + turns)) * US


_BYTES = 1000
"""Size of an item on the link, with its signalling."""
