"""The emulator's clock: what comes first at one instant."""

from simulation import scenario, simulate


def test_an_entry_that_expires_is_gone_for_the_packet_of_that_instant() -> None:
    # A repeated poll reaches r1 at the very nanosecond at which the Interest before it expires there.
    line = {"generator": "line", "length": 2, "link": {"delay_ms": 5.0}}
    parameters = {"poll": {"window": 1, "lifetime_ms": 100}}
    wanted = scenario(topology=line, subscribers=("s1",), parameters=parameters, warmup_ms=1050, settle_ms=0)
    counters = simulate(wanted, "poll", items=1).nodes["r1"].host.forwarder.counters
    assert counters.in_interests == 11
    assert counters.expired == 10
    assert counters.satisfied == 1
