"""The committed corpora, a while of fuzzing, and bugs that it must find."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from patience import PATIENCE_S
from processes import ROOT
from slow import but_slow

from testbed.verify.fuzz.__main__ import Result, fuzz
from testbed.verify.fuzz.bugs import BUGS, planted
from testbed.verify.fuzz.corpus import SEEDS, read, write
from testbed.verify.fuzz.minimise import failure_of, minimise, snippet
from testbed.verify.fuzz.targets import TARGETS, change

pytestmark = pytest.mark.long

SEED = 1
SECONDS = 1
WITHIN = {"wire": 80_000, "node": 80_000, "management": 32_000, "ssb": 20_000}
"""Inputs that it may take to find a planted bug. What libFuzzer tries depends on how long inputs took: a hard
one takes 1,800 to 11,700."""

SEED_OF = {
    "a change before it is authorised": 2,
    "a message stored without its signature": 4,
    "header fields repeated": 3,
}
"""Of hunts that take longest by SEED."""

LONG_HUNTS = {
    "a number of three bytes",
    "a Nonce of three bytes",
    "a forwarding hint unchecked",
    "a fragment after the last",
    "HopLimit 0 passed on",
}
"""These take ten seconds and more, the last one minutes."""

HUNTED = {
    "node": "Data sent to a link that is down",
    "management": "a route to no face",
    "ssb": "a message stored without its signature",
}
"""A bug of each target whose process of Atheris takes seconds to start: that it finds others, too,
`make test-slow` shows. Those of `wire` start at once, and are all hunted."""

BY_MUTATIONS = [name for name, bug in BUGS.items() if bug.target != "wire" and name not in HUNTED.values()]
BY_MUTATIONS = [name for name in BY_MUTATIONS if name not in LONG_HUNTS]
"""Found by the same mutations without Atheris, in less time than its process takes to start."""

MUTATED_ONLY = ("captures", "tiny", "mapping", "mqtt", "multicast", "moq")
"""Targets whose bugs Atheris is not asked for."""

HUNTS = [name for name, bug in BUGS.items() if bug.target not in MUTATED_ONLY]

FROM = {
    "a chunk of no feed": 400,
    "a delegation that is no name": 220,
    "a feed whose key is too short": 190,
    "an IP packet longer than its frame in a window": 950,
    "elements in any order in a window": 180,
}
"""The mutation at which the search begins, if not the first: those before do not meet the bug."""

CORPORA = {name: read(SEEDS / f"{name}.hex") for name in TARGETS}
INPUTS = [(name, what) for name, inputs in CORPORA.items() for what in inputs]

needs_atheris = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="Atheris has no package for this platform"
)


@pytest.mark.parametrize(("target", "what"), INPUTS, ids=" ".join)
def test_the_corpus_passes(target: str, what: str) -> None:
    TARGETS[target].check(CORPORA[target][what])


@pytest.mark.parametrize("name", TARGETS)
def test_mutations_pass(name: str) -> None:
    """The same mutations without coverage, for where there is no Atheris."""
    target = TARGETS[name]
    for data in mutations(name, 300):
        assert len(data) <= target.longest
        target.check(data)


def mutations(name: str, count: int) -> Iterator[bytes]:
    target, rng = TARGETS[name], Random(SEED)
    inputs = list(CORPORA[name].values())
    units = [unit for data in inputs for unit in target.split(data)]
    for _ in range(count):
        data = rng.choice(inputs)
        for _ in range(rng.randint(1, 4)):
            data = change(target, data, units, rng)
        yield data


@pytest.mark.spark
def test_damaged_captures_have_tables_and_a_page() -> None:
    from testbed.verify.fuzz.pages import check, damaged

    check(damaged(Random(SEED), 30))


@needs_atheris
@pytest.mark.spark
@pytest.mark.slow
def test_make_fuzz_takes_every_target_and_pages(tmp_path: Path) -> None:
    """As the Makefile calls it, for a second each."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nfuzz:")[2].splitlines()[1]
    program = recipe.strip().removeprefix("@$(BIN)/python ")
    done = subprocess.run(
        [sys.executable, *program.split()],
        cwd=tmp_path,
        env=os.environ | {"FUZZ_SECONDS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tried = dict(re.findall(r"^(\w+): ([\d,]+) (?:inputs|captures)", done.stdout, re.MULTILINE))
    assert [*tried] == [*TARGETS, "pages"]
    assert all(int(number.replace(",", "")) > 0 for number in tried.values())


@needs_atheris
@pytest.mark.parametrize("name", TARGETS)
def test_a_while_of_fuzzing(name: str, tmp_path: Path) -> None:
    result = fuzz(name, corpus=tmp_path, seconds=SECONDS, seed=SEED)
    assert result.found is None, result.log[-3000:]
    assert result.executions > len(CORPORA[name])


def hunt(bug: str) -> Result:
    with tempfile.TemporaryDirectory() as corpus:
        target = BUGS[bug].target
        return fuzz(target, corpus=Path(corpus), runs=WITHIN[target], seed=SEED_OF.get(bug, SEED), bug=bug)


@needs_atheris
@pytest.mark.parametrize(
    "bug", but_slow(HUNTS, *(bug for bug in HUNTS if bug in BY_MUTATIONS or bug in LONG_HUNTS))
)
def test_a_planted_bug_is_found(bug: str) -> None:
    target = TARGETS[BUGS[bug].target]
    found = hunt(bug).found
    assert found is not None
    assert failure_of(target.check, found) is None
    with planted(bug):
        failure = failure_of(target.check, found)
        assert failure is not None
        smaller = minimise(target, found, most=500)
        assert failure_of(target.check, smaller) == failure
    assert len(smaller) <= len(found)
    assert failure_of(target.check, smaller) is None


@pytest.mark.parametrize("bug", BY_MUTATIONS)
def test_a_planted_bug_is_found_by_mutations(bug: str) -> None:
    name = BUGS[bug].target
    check = TARGETS[name].check
    with planted(bug):
        tried = islice(mutations(name, 2000), FROM.get(bug, 0), None)
        failing = (data for data in tried if failure_of(check, data) is not None)
        found = next(failing, None)
    assert found is not None
    assert failure_of(check, found) is None


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_gone_after_its_context(bug: str) -> None:
    before = {
        name: dict(vars(module))
        for name, module in sys.modules.items()
        if name.startswith(("forwarder", "ssb"))
    }
    with planted(bug):
        pass
    for name, attributes in before.items():
        assert dict(vars(sys.modules[name])) == attributes


def test_a_reproducer_is_a_test() -> None:
    space: dict[str, object] = {}
    text = snippet("wire", bytes(range(100)))
    exec(text, space)
    assert bytes(range(100)).hex() in text.replace('"', "").replace("\n", "").replace(" ", "")
    space["test_found_by_fuzzing"]()  # type: ignore[operator]


def test_a_corpus_is_read_as_it_was_written(tmp_path: Path) -> None:
    inputs = {"nothing": b"", "some": bytes(range(256))}
    write(tmp_path / "x.hex", inputs)
    assert read(tmp_path / "x.hex") == inputs
    assert read(tmp_path / "absent.hex") == {}
