"""Every bound of controlled push that protects a node is tested: without it, the closest test fails."""

from functools import partial

import pytest
import test_backfill
import test_consumer
import test_credit
import test_estimates
import test_hellos
import test_producer
import test_ranges
import test_table
import test_upstream
import test_upstreams
from mutants.bounds import Bound, check, line, value

from forwarder.feedcache.cache import FeedStore
from forwarder.lli import (
    backfill,
    consumer,
    entry,
    estimates,
    forks,
    neighbours,
    ranges,
    table,
    upstream,
    upstreams,
)
from forwarder.lli.credit import AdaptiveCredit
from forwarder.lli.producer import Producer
from forwarder.lli.ranges import Ranges
from forwarder.lli.table import FeedTable
from forwarder.lli.upstream import Upstream
from forwarder.lli.upstreams import Upstreams
from forwarder.wire import evidence
from forwarder.wire.evidence import Evidence

BOUNDS = [
    # What others can make a node hold.
    Bound(
        "feeds a face",
        value(table, "MOST_FEEDS_PER_FACE"),
        test_table.test_one_neighbour_follows_512_feeds_at_most_so_that_some_are_left_for_others,
    ),
    Bound(
        "feeds in use",
        line(FeedStore, "open", "len(self._caches) >= self.max_feeds", "False"),
        test_table.test_feeds_in_use_are_bounded_and_more_are_refused,
    ),
    Bound(
        "feeds remembered",
        line(FeedTable, "_forget_left", "len(self._left) <= self.store.max_feeds", "True"),
        test_table.test_what_is_remembered_of_feeds_that_have_ended_is_bounded,
    ),
    Bound(
        "time that they are remembered",
        value(table, "REMEMBERED"),
        test_table.test_evidence_is_remembered_for_a_while_after_the_last_has_gone,
    ),
    Bound(
        "Interests pending at a producer",
        line(Producer, "receive", "len(self._pending) > self._max_pending", "False"),
        test_producer.test_what_waits_is_bounded,
    ),
    Bound(
        "items asked for again by one LLI",
        value(ranges, "MOST_AGAIN"),
        test_ranges.test_one_lli_asks_for_so_much_again_and_no_more,
    ),
    Bound(
        "numbers of items",
        value(ranges, "LAST_ITEM", 1 << 70),
        test_ranges.test_a_strangers_credit_ends_with_the_numbers,
    ),
    Bound(
        "nonces of a downstream",
        value(ranges, "REMEMBERED_NONCES", 1000),
        test_ranges.test_only_the_newest_nonces_are_remembered,
    ),
    Bound(
        "nonces of own LLIs",
        value(entry, "REMEMBERED_NONCES", 1000),
        test_table.test_so_many_own_llis_are_known_when_they_are_led_back,
    ),
    Bound(
        "lifetime that an LLI may ask for",
        value(ranges, "MOST_LIFETIME_MS"),
        test_ranges.test_a_strangers_lifetime_is_an_hour_at_most,
    ),
    Bound(
        "lifetime of a range",
        line(Ranges, "expire", "granted.expiry <= now", "False"),
        test_ranges.test_credit_zero_cancels_and_time_expires,
    ),
    Bound(
        "items out of order from the past",
        value(backfill, "WINDOW", 1000),
        test_backfill.test_so_much_is_asked_for_at_a_time_and_no_more,
    ),
    Bound(
        "rounds in search of the past",
        value(backfill, "MAX_ROUNDS", 1000),
        test_backfill.test_an_item_that_no_hop_has_is_lost_after_some_rounds,
    ),
    # What others can make a node believe.
    Bound(
        "leap of a number, at a relay",
        value(evidence, "MOST_LEAP"),
        test_upstreams.test_a_leap_is_not_believed,
    ),
    Bound(
        "leap of a number, at a source",
        value(evidence, "MOST_LEAP"),
        test_producer.test_a_source_follows_a_liar_in_steps,
    ),
    Bound(
        "hops of evidence",
        value(upstreams, "MOST_HOPS"),
        test_upstreams.test_evidence_from_too_far_away_is_none,
    ),
    Bound(
        "signatures",
        line(Upstreams, "_believed", "is_fine = is_signed(", "is_fine = True or is_signed("),
        test_upstreams.test_a_forged_proof_is_not_believed,
    ),
    Bound(
        "evidence, as good as one's own",
        line(
            Evidence,
            "beats",
            "self.number == other.number and self.hops < other.hops",
            "self.number == other.number and self.hops <= other.hops",
        ),
        partial(test_upstreams.test_only_better_evidence_makes_an_upstream, Evidence(3, 3), is_taken=False),
    ),
    Bound(
        "evidence, that may make a cycle",
        line(Upstreams, "offered", "elif not evidence.beats(known)", "elif False"),
        test_upstreams.test_the_upstreams_of_a_feed_never_form_a_cycle,
    ),
    # What a node sends.
    Bound(
        "items under way",
        line(Upstreams, "_reach", "min(entry.reach, entry.reach - waiting)", "1 << 40"),
        test_table.test_no_more_is_under_way_than_the_cache_can_hold,
    ),
    Bound(
        "items under way on a long path",
        value(upstreams, "_MOST_REACH"),
        test_table.test_what_is_under_way_grows_up_to_a_bound,
    ),
    Bound(
        "pauses of who is refused, from above",
        value(upstreams, "_LAST_RETRY"),
        test_upstreams.test_who_refuses_is_asked_again_after_growing_pauses,
    ),
    Bound(
        "pauses of who is refused, from below",
        line(Upstreams, "refused", "_FIRST_RETRY << min(times, 10)", "_FIRST_RETRY"),
        test_upstreams.test_who_refuses_is_asked_again_after_growing_pauses,
    ),
    Bound(
        "pauses of a consumer that is refused",
        line(consumer.Consumer, "_wait", "_FIRST_RETRY << min(self._refusals, 10)", "_FIRST_RETRY"),
        test_consumer.test_a_refusal_is_told_and_the_subscription_tried_again_ever_more_slowly,
    ),
    Bound(
        "demands",
        line(Upstreams, "_demand", "INITIAL_TIMEOUT << min(entry.demands, 4)", "INITIAL_TIMEOUT"),
        test_upstreams.test_a_demand_is_repeated_ever_more_slowly_until_it_is_met,
    ),
    Bound(
        "demands for one number",
        line(Upstreams, "demand_if_needed", "number > entry.demanded", "True"),
        test_upstreams.test_many_who_need_newer_evidence_make_one_demand,
    ),
    Bound(
        "answers to evidence of no use",
        line(Upstreams, "offered", "holder.known_sent == entry.needed()", "False"),
        test_upstreams.test_what_is_of_no_use_is_said_to_be,
    ),
    Bound(
        "time of scouts",
        value(upstreams, "SCOUTING"),
        test_upstreams.test_a_cheaper_hop_is_asked_for_a_second_while_another_is_upstream,
    ),
    Bound(
        "lifetime of who waits",
        line(Upstreams, "ask", "if entry.is_fed:", "if True:"),
        partial(
            test_upstreams.test_those_that_ask_each_other_end_with_the_last_subscriber,
            test_upstreams.RING_BOTH_WAYS,
        ),
    ),
    Bound(
        "standings in one Hello",
        value(neighbours, "MOST_STANDINGS"),
        partial(test_hellos.test_many_are_compared_page_by_page, 100),
    ),
    Bound(
        "Hellos to the dead",
        value(neighbours, "_GIVEN_UP"),
        test_hellos.test_the_dead_are_asked_on_slowly_and_left_alone_in_the_end,
    ),
    Bound(
        "tries until a neighbour is dead",
        value(neighbours, "MAX_TRIES"),
        test_hellos.test_a_neighbour_that_falls_silent_is_asked_again_and_again_and_dies,
    ),
    Bound(
        "silence",
        value(neighbours, "HELLO", neighbours.HELLO // 8),
        partial(test_hellos.test_quiet_feeds_cost_a_packet_a_second_at_most_whatever_their_number, 40),
    ),
    Bound(
        "proofs of a fork",
        value(forks, "_PROOF_INTERVAL", 0),
        test_table.test_an_upstream_that_goes_on_pushing_is_told_again_but_not_for_every_item,
    ),
    Bound(
        "items pulled at a time",
        value(upstream, "PULL_WINDOW", 1000),
        test_upstream.test_it_pulls_no_more_than_a_window_ahead,
    ),
    Bound(
        "tries of a holder",
        value(upstream, "MAX_TRIES", 64),
        test_upstream.test_an_lli_that_nobody_answers_is_repeated_with_patience,
    ),
    Bound(
        "probes of an idle feed, from above",
        value(upstream, "MAX_IDLE_PROBES", 30),
        test_upstream.test_an_idle_feed_is_probed_ever_more_rarely_but_outlives_its_lifetime,
    ),
    Bound(
        "probes of an idle feed, from below",
        value(upstream, "MAX_IDLE_PROBES", 0),
        test_upstream.test_an_idle_feed_is_probed_ever_more_rarely_but_outlives_its_lifetime,
    ),
    Bound(
        "the tail's pace",
        line(Upstream, "_tail_timeout", " + 4 * self._pace", ""),
        test_upstream.test_a_burst_that_is_paced_is_not_taken_for_a_lost_tail,
    ),
    Bound(
        "answers that one repair is",
        line(Upstream, "arrived", "self._repaired[seq] > self._judged", "True"),
        test_upstream.test_one_repair_is_one_answer_however_many_items_it_brings,
    ),
    Bound(
        "patience after losses",
        line(Upstream, "_patience", "self._recent_gap if self._losses else ", ""),
        test_upstream.test_a_path_that_loses_is_probed_sooner_for_a_while,
    ),
    Bound(
        "impatience after losses",
        value(upstream, "_LOSSES_REMEMBERED"),
        test_upstream.test_a_path_that_loses_is_probed_sooner_for_a_while,
    ),
    Bound(
        "time-outs",
        value(estimates, "MAX_TIMEOUT"),
        test_estimates.test_the_time_out_stays_in_its_bounds_and_above_the_round_trip,
    ),
    Bound(
        "time-outs from below",
        value(estimates, "MIN_TIMEOUT", 0),
        test_estimates.test_a_short_path_is_given_some_time_all_the_same,
    ),
    Bound(
        "time allowed for reordering",
        value(estimates, "_MAX_REORDER_SHIFT", 30),
        test_upstream.test_a_repair_for_nothing_makes_the_next_one_wait_longer_and_a_loss_less_long,
    ),
    Bound(
        "answers taken for those of repetitions",
        value(estimates, "_MOST_AMBIGUOUS"),
        test_estimates.test_only_so_many_answers_in_a_row_leave_the_time_out_as_it_is,
    ),
    Bound(
        "credit that adapts",
        line(AdaptiveCredit, "_adapt", "min(self.credit * 2, self._largest)", "self.credit * 2"),
        test_credit.test_an_adaptive_step_stays_in_its_bounds,
    ),
]


@pytest.mark.patches
@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.name)
def test_without_its_bound_a_test_fails(bound: Bound) -> None:
    check(bound)
