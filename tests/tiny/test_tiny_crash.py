"""Processes that are killed while they write to a store of tinySSB feeds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from ssb.tiny.feed import Feed
from ssb.tiny.tables import FileTables
from testbed.verify.crash.__main__ import main
from testbed.verify.crash.drill import Fault
from testbed.verify.crash.tiny import TinyDrill


def test_killed_writers(tmp_path: Path) -> None:
    drill = TinyDrill(tmp_path, seed=2)
    drill.run(12)
    assert drill.counts["kills"] == 12
    assert drill.counts["changes acknowledged"] > 20
    assert drill.counts["in the midst of a change"]


def test_the_command() -> None:
    ran = CliRunner().invoke(main, ["--kills", "1", "--store", "tiny"])
    assert ran.exit_code == 0, ran.output
    assert ran.output.endswith("nothing acknowledged was lost, nothing is torn or doubled\n")


class Lazy(FileTables):
    """Commits later than it says."""

    calls = 0

    @contextmanager
    def _transaction(self, *, is_final: bool = False) -> Iterator[None]:
        if not self._database.in_transaction:
            self._database.execute("BEGIN IMMEDIATE")
        yield
        self.calls += 1
        if self.calls % 5 == 1:
            self._database.execute("COMMIT")


class Piecemeal(FileTables):
    """Commits in the midst of a change."""

    def update(self, feed: Feed) -> None:
        super().update(feed)
        if self._database.in_transaction:
            self._database.execute("COMMIT")
            self._database.execute("BEGIN IMMEDIATE")


@pytest.mark.parametrize("tables", [Lazy, Piecemeal])
def test_faults_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: type[FileTables]) -> None:
    monkeypatch.setattr("ssb.tiny.records.FileTables", tables)
    with pytest.raises(Fault, match=r"^kill \d+: "):
        TinyDrill(tmp_path, seed=2).run(150)
