"""The size of a PIT, a sum that is kept up to date, against a walk through its records."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from walked_state import walked

from base.units import MS
from forwarder.forwarder import Forwarder
from forwarder.strategies.asf import Asf
from forwarder.strategies.best_route import BestRoute
from forwarder.strategies.multicast import Multicast
from forwarder.strategies.strategy import Strategy
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry
from forwarder.wire.lp import CONGESTION, make_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest
from forwarder.wire.persistent import make_persistent


class Retrying(BestRoute):
    """After a Nack it asks the next hop that has not been asked."""

    def after_nack(
        self, entry: PitEntry, face: int, reason: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int]:
        """See Strategy."""
        return [hop.face for hop in hops if entry.out_record(hop.face) is None][:1]


LOCAL = 4
STEPS = st.lists(
    st.tuples(st.sampled_from("iiiippddnnwur"), st.integers(1, LOCAL), st.integers(0, 2)),
    min_size=20,
    max_size=80,
)


@pytest.mark.parametrize("strategy", [BestRoute, Multicast, Asf, Retrying])
@settings(max_examples=100)
@given(steps=STEPS)
def test_the_size_follows_all_changes_of_records(
    strategy: type[Strategy], steps: list[tuple[str, int, int]]
) -> None:
    core, now = Forwarder(rng=Random(1), strategy=strategy, persistent=True, cs_capacity=0), 0
    for face in range(1, LOCAL + 1):
        core.add_face(face, local=face == LOCAL)
        core.fib.add(b"", face, face)
    sent: dict[tuple[int, int], bytes] = {}
    for number, (kind, face, name) in enumerate(steps):
        now += 90 * MS
        asked = make_interest(from_uri(f"/{name}"), nonce=number, lifetime_ms=1000)
        if kind == "w":
            core.wake(now)
        elif face not in core.faces:
            continue
        elif kind == "i":
            core.receive(face, asked, now)
        elif kind == "p":
            core.receive(face, make_persistent(asked), now)
        elif kind == "d":
            core.receive(face, make_data(from_uri(f"/{name}"), b""), now)
        elif kind == "n" and (face, name) in sent:
            core.receive(face, make_lp(sent[face, name], nack_reason=CONGESTION), now)
        elif kind == "u":
            core.set_face(face, not core.faces[face].is_up, now)
        elif kind == "r" and name == 0:
            core.remove_face(face, now)
        for out, packet in core.take_outputs():
            for each in range(3):
                if packet[:1] == b"\x05" and from_uri(f"/{each}") in packet:
                    sent[out, each] = packet
        assert core.held()["pit"] == walked(core)["pit"] == (core.pit_entries(), core.pit_bytes())
