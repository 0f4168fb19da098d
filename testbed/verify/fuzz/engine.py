"""The fuzzing process: one target under Atheris, which never returns.

`python -m testbed.verify.fuzz.engine TARGET BUG POOL [libFuzzer's arguments]`; BUG is the name of a
deliberate one, or empty, POOL a folder of inputs to recombine. Failing inputs are written to
-artifact_prefix.
"""

import sys
from contextlib import nullcontext
from pathlib import Path
from random import Random

import atheris

_ROOMS = ["forwarder", "ssb"]

with atheris.instrument_imports(include=_ROOMS, enable_loader_override=False):
    from testbed.verify.fuzz import bugs
    from testbed.verify.fuzz.targets import TARGETS, change

    name, bug, pool, *arguments = sys.argv[1:]
    target = TARGETS[name]


def main() -> None:
    """Fuzz until a failure, or the limits in libFuzzer's arguments."""
    units = [unit for path in sorted(Path(pool).iterdir()) for unit in target.split(path.read_bytes())]

    def custom(data: bytes, max_size: int, seed: int) -> bytes:
        rng = Random(seed)
        if rng.random() < 0.1:
            return atheris.Mutate(data, max_size)  # type: ignore[no-any-return]
        for _ in range(rng.choice((1, 1, 2, 4))):
            data = change(target, data, units, rng)
        return data[:max_size]

    options = [sys.argv[0], f"-max_len={target.longest}", *arguments]
    with bugs.planted(bug, atheris.instrument_func) if bug else nullcontext():
        atheris.Setup(options, target.check, custom_mutator=custom)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
