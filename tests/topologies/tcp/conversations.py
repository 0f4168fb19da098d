"""Conversations of two stacks over any link: what must hold of each, and worlds that a seed makes up."""

from random import Random

from tcp_world import Talker, Witness, World, conversation

from base.units import MS, SECOND
from topologies.emulator.tcp.events import Kind
from topologies.emulator.tcp.settings import Settings
from topologies.model import Link

LONG = 1_000_000 * SECOND


class NearWrap(Random):
    """Initial sequence numbers that soon pass 2^32."""

    def getrandbits(self, bits):
        return (1 << 32) - 2000 if bits == 32 else super().getrandbits(bits)


def converse(link, chosen, talks, cuts, abort, corrupt, wraps, seed, *, may_be_reset_last=True):
    """Have two talk over a link, and see to it that all arrives or both are told.

    chosen: the settings of each. talks: the arguments of each Talker. cuts: (when, how long), ms, the link is
    dead. abort: (node, when in ms), or None. corrupt: percent of segments that are damaged. wraps: sequence
    numbers soon pass 2^32. may_be_reset_last: an end whose last acknowledgement was lost may be reset.
    """
    rngs = [NearWrap(seed), NearWrap(seed + 1)] if wraps else None
    world = World(link, seed, chosen, rngs=rngs)
    rng = Random(seed)
    if corrupt:
        world.mangle = lambda _node, octets: damaged(octets, rng) if rng.random() * 100 < corrupt else octets
    else:
        Witness(world)
    for start, length in cuts:
        world.at(start * MS, lambda: setattr(world, "is_cut", True))
        world.at((start + length) * MS, lambda: setattr(world, "is_cut", False))
    talkers = [Talker(world, node, **talk) for node, talk in enumerate(talks)]
    whole = [talker.data for talker in talkers]
    if talkers[0].closes_last and talkers[1].closes_last:
        talkers[0].closes_last = False
    if abort:
        node, when = abort
        world.at(when * MS, talkers[node].abort)
    conversation(world, talkers)
    assert world.run(LONG), "it never ends"
    if not cuts and not abort and not corrupt and link.loss_percent <= 5:
        # The last acknowledgement may be lost until TIME-WAIT, here of 2 s, is over.
        for talker, other in (talkers, talkers[::-1]):
            is_last = may_be_reset_last and link.loss_percent > 0 and Kind.CLOSED in other.told
            assert Kind.FAILED not in talker.told or is_last, "given up too soon"
    if any(talker.has_aborted or Kind.FAILED in talker.told or not talker.told for talker in talkers):
        nudge(world, talkers)
    else:
        for talker, other in ((talkers[0], whole[1]), (talkers[1], whole[0])):
            assert talker.told.count(Kind.CLOSED) == 1
            assert bytes(talker.got) == other
    for talker, other in ((talkers[0], whole[1]), (talkers[1], whole[0])):
        assert other.startswith(bytes(talker.got))
        ends = talker.told.count(Kind.CLOSED) + talker.told.count(Kind.FAILED)
        assert ends == (bool(talker.told) and not talker.has_aborted)
        assert talker.most_unread <= chosen[talker.node].receive_buffer
    assert world.run(world.now + LONG)
    assert all(stack.is_idle() for stack in world.stacks)


def damaged(octets, rng):
    """A segment with one bit turned, or cut short."""
    place = rng.randrange(len(octets))
    if rng.random() < 0.3:
        return octets[:place]
    return octets[:place] + bytes([octets[place] ^ 1 << rng.randrange(8)]) + octets[place + 1 :]


def nudge(world, talkers):
    """Have an end that waits for a dead one find out, as nobody keeps connections alive."""
    for talker in talkers:
        if talker.told and not talker.is_over and not talker.has_aborted:
            stack = world.stacks[talker.node]
            if stack.send(talker.connection, b"?", world.now) or talker.data:
                world.after(talker.node)
                assert world.run(LONG * 2)
                assert talker.is_over
            else:
                stack.abort(talker.connection, world.now)
                talker.told.append(Kind.FAILED)
                world.after(talker.node)


def fits(talk, settings):
    """Shorten what would take a million segments."""
    if settings.send_buffer < 100 or settings.receive_buffer < 100:
        talk["data"] = talk["data"][:50]
    if talk["limit"] < 1000:
        talk["pause"] = 0


def drawn(seed):
    """Return the arguments of a conversation that a seed makes up."""
    rng = Random(seed)
    link = Link(
        "a",
        "b",
        bw_mbit=rng.choice((None, 0.05, 1, 10, 50)),
        delay_ms=rng.choice((0, 1, 20, 100)),
        loss_percent=rng.choice((0, 1, 5, 20)),
        jitter_ms=rng.choice((0, 1, 30)),
        max_queue_size=rng.randint(2, 50),
        duplicate_percent=rng.choice((0, 1, 20)),
    )
    chosen = [
        Settings(
            mtu=rng.choice((128, 576, 1500)),
            send_buffer=rng.choice((1, 100, 5000, 1 << 18)),
            receive_buffer=rng.choice((1, 100, 5000, 70_000, 1 << 20)),
            msl=SECOND,
        )
        for _ in "ab"
    ]
    talks = [
        {
            "data": rng.randbytes(rng.choice((0, 1, 300, 20_000))),
            "limit": rng.choice((1, 7, 1000, 1 << 20)),
            "pause": rng.choice((0, 0, MS, 300 * MS)),
            "closes_last": rng.random() < 0.5,
        }
        for _ in "ab"
    ]
    for talk in talks:
        for settings in chosen:
            fits(talk, settings)
    cuts = [(rng.randrange(5000), rng.choice((10, 1000, 20_000))) for _ in range(rng.choice((0, 0, 1, 2)))]
    abort = rng.choice((None, None, (rng.randrange(2), rng.randrange(3000))))
    return link, chosen, talks, cuts, abort, rng.choice((0, 0, 3)), rng.random() < 0.5, seed
