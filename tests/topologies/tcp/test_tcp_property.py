"""Two stacks, any link, any bytes: all arrives, in order and once, or both ends are told; nothing is left."""

from random import Random

from conversations import LONG, converse, drawn, fits, nudge
from fresh_seeds import first_fresh_seed
from hypothesis import given, settings
from hypothesis import strategies as st
from tcp_world import Talker, Witness, World

from base.units import MS, SECOND
from topologies.emulator.tcp.events import Kind
from topologies.emulator.tcp.settings import Settings
from topologies.model import Link

LINKS = st.builds(
    Link,
    st.just("a"),
    st.just("b"),
    bw_mbit=st.one_of(st.none(), st.floats(0.05, 50)),
    delay_ms=st.floats(0, 100),
    loss_percent=st.sampled_from((0, 1, 5, 20)),
    jitter_ms=st.sampled_from((0, 1, 30)),
    max_queue_size=st.integers(2, 50),
    duplicate_percent=st.sampled_from((0, 1, 20)),
)
SETTINGS = st.builds(
    Settings,
    mtu=st.sampled_from((128, 576, 1500)),
    send_buffer=st.sampled_from((1, 100, 5000, 1 << 18)),
    receive_buffer=st.sampled_from((1, 100, 5000, 70_000, 1 << 20)),
    msl=st.just(SECOND),
)
TALKS = st.fixed_dictionaries(
    {
        "data": st.integers(0, 20_000).map(lambda size: Random(size).randbytes(size)),
        "limit": st.sampled_from((1, 7, 1000, 1 << 20)),
        "pause": st.sampled_from((0, 0, 1 * MS, 300 * MS)),
        "closes_last": st.booleans(),
    }
)
CUTS = st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 20_000)), max_size=2)
ABORTS = st.one_of(st.none(), st.none(), st.tuples(st.sampled_from((0, 1)), st.integers(0, 3000)))


@settings(max_examples=120)
@given(
    LINKS,
    SETTINGS,
    SETTINGS,
    TALKS,
    TALKS,
    CUTS,
    ABORTS,
    st.sampled_from((0, 0, 0, 3)),
    st.booleans(),
    st.integers(0),
)
def test_all_arrives_or_both_are_told(link, at_a, at_b, talk_a, talk_b, cuts, abort, corrupt, wraps, seed):
    for talk in (talk_a, talk_b):
        fits(talk, at_a)
        fits(talk, at_b)
    converse(link, (at_a, at_b), (talk_a, talk_b), cuts, abort, corrupt, wraps, seed)


def test_fresh_seeds_of_this_commit():
    """Worlds that no earlier commit has seen."""
    first = first_fresh_seed()
    for seed in range(first, first + 60):
        converse(*drawn(seed))


class OnePort(Random):
    """Chooses that port, and numbers as usual."""

    def __init__(self, seed, port):
        super().__init__(seed)
        self.port = port

    def randrange(self, *_):
        return self.port - 49_152


@settings(max_examples=50)
@given(LINKS, st.integers(0), st.integers(0, 30))
def test_both_ask_at_once(link, seed, later_ms):
    """Simultaneous open: RFC 9293, figure 8."""
    ports = 50_000, 60_000
    chosen = Settings(msl=SECOND)
    rngs = [OnePort(seed, port) for port in ports]
    world = World(link, seed, (chosen, chosen), rngs=rngs)
    Witness(world)
    talkers = [Talker(world, node, data=bytes(5000 * (1 + node))) for node in (0, 1)]
    world.on_event = lambda node, event: talkers[node].on_event(event)

    def ask(node):
        number = world.stacks[node].connect(world.addresses[1 - node], ports[1 - node], world.now)
        talkers[node].begin(number)
        world.after(node)

    world.at(0, lambda: ask(0))
    world.at(later_ms * MS, lambda: ask(1))
    assert world.run(LONG)
    if Kind.FAILED in talkers[0].told or Kind.FAILED in talkers[1].told:
        nudge(world, talkers)  # one came first, and was refused; or the link is too bad
    else:
        for talker, other in ((talkers[0], 10_000), (talkers[1], 5000)):
            assert talker.told[0] is Kind.CONNECTED
            assert bytes(talker.got) == bytes(other)
    assert world.run(world.now + LONG)
    assert all(stack.is_idle() for stack in world.stacks)
