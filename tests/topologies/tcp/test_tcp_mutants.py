"""Each deliberate bug is found, by what passes without it; or it costs what can be measured."""

from itertools import chain

import pytest
from conversations import converse, drawn
from mutants.patches import mutated
from mutants.tcp import COSTLY, MUTANTS
from scripted_peer import in_state, next_sequence
from tcp_world import Talker, World, conversation

from base.units import MS, SECOND
from topologies.emulator.tcp.segment import RST
from topologies.emulator.tcp.settings import Settings
from topologies.emulator.tcp.states import State
from topologies.model import Link

WITHIN = 150
"""Seeds."""


def blind_reset():
    """A stranger guesses a number in the window (RFC 5961, section 3.2)."""
    peer = in_state(State.ESTABLISHED)
    peer.say(RST, next_sequence(State.ESTABLISHED) + 100)
    assert peer.state() is State.ESTABLISHED


def stories():
    return chain(
        [blind_reset],
        ((lambda s=seed: converse(*drawn(s), may_be_reset_last=False)) for seed in range(WITHIN)),
    )


def first_caught(name):
    with mutated(name, MUTANTS):
        for story in stories():
            try:
                story()
            except (AssertionError, LookupError):
                return story
    pytest.fail(f"{name!r} passes {WITHIN} seeds")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name):
    first_caught(name)()


def cost(loss=0.0, queue=50, size=1_000_000, pause=0, buffer=1 << 18):
    """Return what it takes to send so many bytes: ms, segments sent again, plain acknowledgements."""
    link = Link("a", "b", bw_mbit=10, delay_ms=20, loss_percent=loss, max_queue_size=queue)
    world = World(link, 3, (Settings(receive_buffer=buffer),) * 2)
    acks = [0]
    world.sent.append(lambda node, segment: acks.__setitem__(0, acks[0] + (node == 1 and not segment.length)))
    counters = world.stacks[0].counters
    receiver = Talker(world, 1, limit=1 << 16, pause=pause, closes_last=True)
    conversation(world, [Talker(world, 0, bytes(size)), receiver])
    while not receiver.is_over and world.now < 1000 * SECOND:
        world.run(world.now + 10 * MS)
    ended = world.now
    world.run()
    assert len(receiver.got) == size
    return {"ms": ended // MS, "repeated": counters.repeated, "acks": acks[0]}


@pytest.mark.parametrize(
    ("name", "what", "times", "link"),
    [
        ("no fast retransmit", "ms", 1.3, {"loss": 1}),
        ("no slow start", "repeated", 2, {"queue": 40, "size": 300_000}),
        ("window never halved", "repeated", 2, {"queue": 20}),
        ("all sent again", "repeated", 3, {"loss": 1}),
        ("every segment acknowledged", "acks", 1.6, {"queue": 500, "size": 200_000}),
        ("window opened in silence", "ms", 1.3, {"pause": 50 * MS, "buffer": 20_000, "size": 300_000}),
    ],
)
def test_a_bug_costs(name, what, times, link):
    without = cost(**link)[what]
    with mutated(name, COSTLY):
        assert cost(**link)[what] > times * max(without, 1)


def test_all_costs_are_measured():
    (mark,) = test_a_bug_costs.pytestmark
    assert {case[0] for case in mark.args[1]} == set(COSTLY)
