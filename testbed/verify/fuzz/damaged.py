"""`python -m testbed.verify.fuzz.damaged`: random damaged captures, each through `feednet analyze`.

Users with a damaged capture need one clear line, soon. So the command itself decodes each capture
(`--packets-only`, which writes the tables of packets), and must end with success or a one-line error, within
LONGEST_S of processor time. Half the captures are small ones of the corpus with arbitrary damage; the others
are large, up to MOST_FRAMES frames, with damage everywhere: many breaks are a reader's worst case.
"""

import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import click
from click.testing import CliRunner
from rich.console import Console

from captures.formats.pcapng import ENHANCED_PACKET, INTERFACE_DESCRIPTION, SECTION_HEADER
from captures.layers.frames import udp_frame
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest
from testbed.cli.usage import HELP
from testbed.errors import UserError
from testbed.verify.fuzz.pages import damaged

LONGEST_S: Final = 3.0
MOST_FRAMES: Final = 8_000
_COUNT = 5_000
_ENDS = bytes(6), bytes(6), "10.0.0.1", "10.0.0.2"

_console = Console(highlight=False, soft_wrap=True)


class CommandResult(NamedTuple):
    """The command's result for a capture.

    Attributes:
        fault: what is wrong with the result; "" for nothing.
        outcome: "read", "read with damage" or "refused".
        seconds: processor time.
    """

    fault: str
    outcome: str
    seconds: float


def run_command(data: bytes) -> CommandResult:
    """Analyse a capture, and judge the command's result."""
    from testbed.cli.main import MENDABLE, feednet

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a-eth0.pcap"
        path.write_bytes(data)
        begun = time.process_time()
        out = str(Path(name) / "out")
        done = CliRunner().invoke(feednet, ["analyze", str(path), "--packets-only", "--out", out])
        seconds = time.process_time() - begun
        left = sorted(each.name for each in Path(name).iterdir())
    fault, outcome = "", "read with damage" if "  damage " in done.output else "read"
    if isinstance(done.exception, MENDABLE):
        outcome = "refused"
        if "\n" in str(done.exception) or not str(done.exception):
            fault = f"refused in several lines, or none: {done.exception!r}"
        elif left != ["a-eth0.pcap"]:
            fault = f"refused, and left {left}"
    elif done.exit_code:
        fault = f"{done.exception!r}"
    if not fault and seconds > LONGEST_S:
        fault = f"it took {seconds:.1f} s"
    return CommandResult(fault, outcome, seconds)


def draw(rng: Random) -> bytes:
    """Draw a damaged capture."""
    if rng.random() < 0.5:
        return damaged(rng, 1)[0]
    units = rng.choice((_pcap, _pcapng))(rng, int(MOST_FRAMES ** rng.uniform(0.3, 1)))
    for _ in range(rng.randint(1, 3)):
        rng.choice(_DAMAGES)(rng, units)
    return b"".join(units)


def _packets(rng: Random, count: int) -> list[bytes]:
    """Return similar frames of NDN."""
    made = []
    for number in range(min(count, 40)):
        name = from_uri(f"/damaged/{number}")
        packet = (
            make_interest(name, nonce=number) if number % 2 else make_data(name, rng.randbytes(number * 9))
        )
        made.append(udp_frame(*_ENDS, 6363, 6363, packet, number))
    return [made[number % len(made)] for number in range(count)]


def _pcap(rng: Random, count: int) -> list[bytearray]:
    units = [bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1))]
    for number, frame in enumerate(_packets(rng, count)):
        size = len(frame)
        units.append(bytearray(struct.pack("<IIII", 1_000 + number // 99, number % 99, size, size) + frame))
    return units


def _block(kind: int, body: bytes) -> bytearray:
    size = struct.pack("<I", 12 + len(body) + -len(body) % 4)
    return bytearray(struct.pack("<I", kind) + size + body + bytes(-len(body) % 4) + size)


def _pcapng(rng: Random, count: int) -> list[bytearray]:
    name = b"e" * rng.choice((4, 300))
    option = struct.pack("<HH", 2, len(name)) + name + bytes(-len(name) % 4) + bytes(4)
    units = [
        _block(SECTION_HEADER, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        _block(INTERFACE_DESCRIPTION, struct.pack("<HHI", rng.choice((1, 1, 1, 105, 147)), 0, 0) + option),
    ]
    for number, frame in enumerate(_packets(rng, count)):
        head = struct.pack("<IIIII", 0, 0, number, len(frame), len(frame))
        units.append(_block(ENHANCED_PACKET, head + frame))
    return units


def _corrupt_lengths(rng: Random, units: list[bytearray]) -> None:
    """Corrupt length fields at regular intervals."""
    step, place = rng.randint(1, 9), rng.choice((4, 8, -4))
    wrong = struct.pack("<I", rng.choice((0, 3, 12, 77, 1 << 20, 0xFFFFFFFF)))
    for each in units[2::step]:
        begin = place % len(each)
        each[begin : begin + 4] = wrong[: len(each) - begin]


def _replace_octets(rng: Random, units: list[bytearray]) -> None:
    """Replace random bytes."""
    for each in units[rng.randint(0, 2) :]:
        if rng.random() < 0.3:
            each[rng.randrange(len(each))] = rng.randrange(256)


def _drop_parts(rng: Random, units: list[bytearray]) -> None:
    """Drop parts from the middle of units."""
    for each in units[2 :: rng.randint(2, 50)]:
        begin = rng.randrange(len(each))
        del each[begin : begin + rng.randint(1, 200)]
        if not each:
            each.append(0)


def _zero_units(rng: Random, units: list[bytearray]) -> None:
    """Zero a run of units, as after a power cut."""
    begin = rng.randrange(len(units))
    for number in range(begin, min(len(units), begin + rng.randint(1, 500))):
        units[number] = bytearray(len(units[number]))


def _truncate(rng: Random, units: list[bytearray]) -> None:
    """Truncate the end."""
    del units[rng.randint(1, len(units)) :]
    last = units[-1]
    del last[rng.randint(1, len(last)) :]


def _insert_noise(rng: Random, units: list[bytearray]) -> None:
    """Insert noise between units."""
    for _ in range(rng.randint(1, 30)):
        units.insert(rng.randint(1, len(units)), bytearray(rng.randbytes(rng.randint(1, 300))))


_DAMAGES: Final[tuple[Callable[[Random, list[bytearray]], None], ...]] = (
    _corrupt_lengths,
    _replace_octets,
    _drop_parts,
    _zero_units,
    _truncate,
    _insert_noise,
)


@click.command(context_settings=HELP)
@click.option("--count", default=_COUNT, help="Captures.")
@click.option(
    "--seed", type=int, default=None, help="Of the first capture; drawn from the clock if left out."
)
def main(count: int, seed: int | None) -> None:
    """Analyse damaged captures, and print the results."""
    first = time.time_ns() // 1_000 if seed is None else seed
    outcomes: Counter[str] = Counter()
    slowest = CommandResult("", "", 0.0)
    for number in range(count):
        told = run_command(draw(Random(first + number)))
        outcomes[told.outcome] += 1
        if number:  # the first one loads the modules
            slowest = max(slowest, told, key=lambda each: each.seconds)
        if told.fault and (number or "it took" not in told.fault):
            raise UserError(
                f"capture {first + number}: {told.fault}; again: --seed {first + number} --count 1"
            )
    said = ", ".join(f"{each} {outcome}" for outcome, each in sorted(outcomes.items()))
    _console.print(f"{count} damaged captures from seed {first}: {said}")
    _console.print(
        f"the slowest took {slowest.seconds:.2f} s of processor time, {LONGEST_S:.0f} s are allowed"
    )


if __name__ == "__main__":
    main()
