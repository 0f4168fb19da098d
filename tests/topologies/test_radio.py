"""Radio cells: airtime by the formula, and who hears whom on a channel that all share."""

from collections import defaultdict
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_topologies import GROUP
from stream_programs import Quiet

from base.endpoint import GroupPort, Program
from base.units import MS, SECOND
from captures.layers.frames import udp_frame
from topologies.emulator.network import EmulatedNetwork
from topologies.model import Medium, Topology, TopologyError
from topologies.radio import WINDOW_NS, Cell, Radio, RadioError, air_payload

FREE = Radio(duty_cycle_percent=100.0)


@pytest.mark.parametrize(
    ("factor", "khz", "rate", "payload", "ms"),
    [
        (9, 125.0, 5, 13, 164.864),  # a published spreadsheet of AN1200.13's formulas
        (12, 125.0, 5, 64, 2793.472),  # these two: tests of calculators for the SX1276 data sheet
        (7, 500.0, 5, 255, 99.904),
        # By hand from the formula, for entries of tinySSB with their CRC-32, 124 bytes. SF7: 1008 bits in
        # blocks of 28 are 36, so 8 + 36 x 5 = 188 symbols and 12.25 of the preamble, 1.024 ms each.
        (7, 125.0, 5, 124, 205.056),
        # SF12 with the low data rate optimisation: 988 bits in blocks of 40 are 25, so 8 + 25 x 8 = 208
        # symbols and 12.25, 32.768 ms each.
        (12, 125.0, 8, 124, 7217.152),
        # SF11 at 250 kHz has symbols of 8.192 ms, and no optimisation: 800 bits in blocks of 44 are 19.
        (11, 250.0, 6, 100, (12.25 + 8 + 19 * 6) * 8.192),
        # SF12 at 250 kHz has symbols of 16.384 ms, and is optimised: 796 bits in blocks of 40 are 20.
        (12, 250.0, 6, 100, (12.25 + 8 + 20 * 6) * 16.384),
    ],
)
def test_airtime_is_that_of_the_data_sheet(factor, khz, rate, payload, ms):
    radio = Radio(spreading_factor=factor, bandwidth_khz=khz, coding_rate=rate)
    assert radio.airtime_ns(payload) == round(ms * MS)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"spreading_factor": 6}, "spreading_factor must be a whole number from 7 to 12, not 6"),
        ({"bandwidth_khz": 100.0}, "bandwidth_khz must be one of 7.8, .*, not 100.0"),
        ({"coding_rate": 9}, "coding_rate must be a whole number from 5 to 8, not 9"),
        ({"duty_cycle_percent": 0}, "duty_cycle_percent must be above 0 to 100, not 0"),
        ({"backoff_ms": float("nan")}, "backoff_ms must be from 0 to 86,400,000, not nan"),
    ],
)
def test_a_radio_that_cannot_be_is_one_line(wrong, message):
    with pytest.raises(RadioError, match=message):
        Radio(**wrong)
    with pytest.raises(TopologyError, match="bw_mbit is not for a radio cell"):
        Medium(name="cell", members=("a", "b"), bw_mbit=1.0, radio=Radio())


class _Air:
    """What a cell has done, from the receptions and the calls alone."""

    def __init__(self, radio: Radio, members: str, queue: int = 100, seed: str = "x") -> None:
        self.cell: Cell[int] = Cell(radio, tuple(members), queue, seed)
        self.heard: dict[int, set[str]] = defaultdict(set)
        self.ends: dict[int, int] = {}

    def run(self, until: int) -> None:
        while (due := self.cell.next_deadline()) is not None and due <= until:
            for reception in self.cell.wake(due):
                assert reception.time == due
                self.heard[reception.frame].add(reception.receiver)
                self.ends[reception.frame] = due


def test_one_frame_is_heard_by_all_others_when_it_ends():
    air = _Air(Radio(backoff_ms=0.0), "abc")
    air.cell.send("a", 124, 1, 5 * MS)
    air.run(SECOND)
    assert air.heard == {1: {"b", "c"}}
    assert air.ends == {1: 5 * MS + 205_056_000}


def test_two_at_once_are_both_lost_even_at_those_who_heard_only_the_end_of_one():
    air = _Air(Radio(backoff_ms=0.0, carrier_sense=False), "abcd")
    air.cell.send("a", 124, 1, 0)
    air.run(100 * MS)
    air.cell.send("b", 124, 2, 205 * MS)
    air.run(205 * MS)
    air.cell.send("c", 10, 3, 410 * MS)
    air.run(SECOND)
    assert air.heard == {}
    assert [each["collided"] for each in air.cell.counters().values()] == [1, 1, 1, 0]
    assert [each["sent"] for each in air.cell.counters().values()] == [1, 1, 1, 0]


def test_who_listens_waits_but_does_not_hear_what_has_just_begun():
    air = _Air(Radio(backoff_ms=400.0), "abc", seed="2")
    for number, sender in enumerate("abc"):
        air.cell.send(sender, 124, number, 0)
    air.run(10 * SECOND)
    assert air.heard == {0: {"b", "c"}, 1: {"a", "c"}, 2: {"a", "b"}}
    assert sum(each["busy"] for each in air.cell.counters().values()) > 0
    blind = _Air(Radio(backoff_ms=0.0), "abc")
    blind.cell.send("a", 124, 1, 0)
    blind.run(0)
    blind.cell.send("b", 124, 2, 2 * MS)  # two symbols of 1.024 ms have not passed
    blind.run(SECOND)
    assert blind.heard == {}


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from([0.01, 0.1, 1.0, 10.0, 100.0]),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 255), st.integers(0, 100)), max_size=60),
)
def test_no_frame_overlaps_another_that_came_through_and_no_hour_has_too_much(seed, duty, senses, sends):
    radio = Radio(duty_cycle_percent=duty, carrier_sense=senses)
    air = _Air(radio, "abcd", seed=str(seed))
    times = sorted(sends, key=lambda each: each[2])
    for number, (sender, payload, at) in enumerate(times):
        air.run(at * SECOND - 1)
        air.cell.send(sender, payload, number, at * SECOND)
    air.run(1 << 62)
    counters = air.cell.counters()
    most = round(WINDOW_NS * duty / 100)
    fit = [each for each in times if radio.airtime_ns(each[1]) <= most]
    assert sum(each["unfit"] for each in counters.values()) == len(times) - len(fit)
    assert sum(each["sent"] for each in counters.values()) == len(fit), "all are sent in the end"
    through = len(air.ends)
    assert sum(each["sent"] - each["collided"] for each in counters.values()) == through
    on_air = sorted((end - radio.airtime_ns(times[number][1]), end) for number, end in air.ends.items())
    assert all(before[1] <= after[0] for before, after in pairwise(on_air))
    for sender in "abcd":
        own = [
            (end - radio.airtime_ns(times[number][1]), end)
            for number, end in air.ends.items()
            if times[number][0] == sender
        ]
        for _, end in own:  # what collided was on air, too, and only adds to it
            start = end - WINDOW_NS
            assert sum(max(0, min(b, end) - max(a, start)) for a, b in own) <= most
        order = [number for number, _ in sorted(air.ends.items(), key=lambda each: each[1])]
        mine = [number for number in order if times[number][0] == sender]
        assert mine == sorted(mine), "a member's frames keep their order"


def test_the_duty_cycle_delays_to_the_nanosecond():
    """One per cent of an hour is 36 s: 175 frames of 124 bytes, 0.205056 s each, and no more."""
    air = _Air(Radio(backoff_ms=0.0), "ab", queue=200)
    for number in range(176):
        air.cell.send("a", 124, number, 0)
    air.run(2 * WINDOW_NS)
    airtime = 205_056_000
    assert [air.ends[number] for number in range(175)] == [airtime * (n + 1) for n in range(175)]
    over = 176 * airtime - 36 * SECOND  # so much of the first frame must have left the hour before
    assert air.ends[175] == WINDOW_NS + over
    assert air.cell.counters()["a"]["held_back"] == 1


def test_who_has_left_is_not_heard_and_hears_nothing():
    air = _Air(Radio(backoff_ms=0.0), "abc")
    air.cell.send("a", 124, 1, 0)
    air.run(MS)
    air.cell.set_present("c", present=False)
    air.cell.send("c", 124, 2, 10 * MS)  # elsewhere: it disturbs nobody
    air.run(SECOND)
    assert air.heard == {1: {"b"}}
    air.cell.set_present("c", present=True)
    air.cell.send("a", 124, 3, 2 * SECOND)
    air.run(3 * SECOND)
    assert air.heard[3] == {"b", "c"}


def test_only_payloads_of_datagrams_go_on_air():
    frame = udp_frame(bytes(6), bytes(6), "10.128.0.1", GROUP, 7001, 7001, bytes(124), 1)
    assert air_payload(frame) == 124
    assert air_payload(frame[:12] + b"\x08\x06" + frame[14:]) is None
    assert air_payload(frame[:23] + b"\x02" + frame[24:]) is None, "IGMP"
    assert air_payload(udp_frame(bytes(6), bytes(6), "10.0.0.1", GROUP, 1, 1, bytes(256), 1)) is None


@given(st.integers(0, 1 << 32), st.floats(0, 100))
def test_in_the_emulator_survivors_of_the_air_meet_their_own_losses(seed, loss):
    medium = Medium(name="cell", members=tuple("abc"), loss_percent=loss, radio=FREE)
    topology = Topology(tuple("abc"), (), (medium,))
    nodes = {name: Quiet() for name in "abc"}
    programs = {
        name: [Program(node, {1: GroupPort(at, GROUP, 7001)})]
        for (name, node), at in zip(nodes.items(), topology.attachments, strict=True)
    }
    random = Random(seed)
    for node in nodes.values():
        node.outputs += [(1, bytes([number]) * random.randint(1, 120), None) for number in range(5)]
    network = EmulatedNetwork(topology, programs, seed=seed, capture=None)
    network.run(100 * SECOND)
    cell = network.air_counters()["cell"]
    assert sum(each["sent"] for each in cell.values()) == 15
    for name, node in nodes.items():
        heard = len(node.datagrams)
        assert heard <= cell[name]["heard"]
        if loss in (0, 100):
            assert heard == (0 if loss else cell[name]["heard"])
