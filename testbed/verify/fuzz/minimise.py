"""Shrinks a failing input, and prints a test for it."""

import traceback
from collections.abc import Callable

from testbed.verify.fuzz.targets import Target
from testbed.verify.kit.shrink import minimal_part

Failure = tuple[str, str, int]
"""An exception's type, and the file and line that raised it."""


def failure_of(check: Callable[[bytes], None], data: bytes) -> Failure | None:
    """Return an input's failure, None without one."""
    try:
        check(data)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        if place.name == "expect":
            place = traceback.extract_tb(error.__traceback__)[-2]
        return type(error).__name__, place.filename, place.lineno or 0
    return None


def minimise(target: Target, data: bytes, most: int = 5000) -> bytes:
    """Return a smaller input that fails at the same place, after at most `most` tries."""
    wanted = failure_of(target.check, data)
    if wanted is None:
        raise ValueError("this input does not fail")
    left = most

    def fails(smaller: bytes) -> bool:
        nonlocal left
        left -= 1
        return left > 0 and failure_of(target.check, smaller) == wanted

    units = [*minimal_part(tuple(target.split(data) or [data]), lambda units: fails(b"".join(units)))]
    if fails(b"".join(units)):
        for at, unit in enumerate(units):
            head, packet = target.frame(unit)

            def still(parts: tuple[int, ...], at: int = at, head: bytes = head) -> bool:
                return fails(b"".join([*units[:at], target.unit(head, bytes(parts)), *units[at + 1 :]]))

            if packet:
                octets = minimal_part(tuple(packet), still)
                units[at] = target.unit(head, bytes(octets))
        data = b"".join(units)
    return data


def snippet(name: str, data: bytes) -> str:
    """Return a test that reproduces an input's failure."""
    rows = [data.hex()[at : at + 80] for at in range(0, len(data.hex()), 80)] or [""]
    text = "\n".join(f'            "{row}"' for row in rows)
    return f'''from testbed.verify.fuzz.targets import TARGETS


def test_found_by_fuzzing() -> None:
    TARGETS["{name}"].check(
        bytes.fromhex(
{text}
        )
    )
'''
