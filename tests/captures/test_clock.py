import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.units import SECOND
from captures.network.clock import Clock


@given(st.integers(1, 1000), st.integers(0, 2**62), st.integers(0, 10**15))
def test_a_second_of_the_run_is_as_many_of_the_machine_as_it_is_dilated(
    dilation: int, origin: int, passed: int
) -> None:
    clock = Clock(dilation, origin)
    assert clock.at(origin) == origin
    assert clock.at(origin + dilation * passed) == origin + passed
    assert clock.machine_s(passed) == pytest.approx(dilation * passed / SECOND)
    assert Clock(1, origin).at(passed) == passed
