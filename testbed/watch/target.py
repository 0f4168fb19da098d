"""The target of `feednet watch`: a present or future run, or captures of any program."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import system_reason
from analysis.files import partial_of
from base.files import named
from testbed.errors import UserError, as_user_error
from testbed.experiment.files import CAPTURE, SCENARIO
from testbed.experiment.inputs import scenario_of
from testbed.scenario import workload
from testbed.scenario.model import Scenario
from testbed.scenario.timeline import Timeline

if TYPE_CHECKING:
    from analysis.decode.reading import NodeRule
    from analysis.live.following import Break

_CAPTURES = {".pcap", ".pcapng", ".cap", ".dump", ".ntar"}


@dataclass
class Target:
    """The target.

    run: the directory of a run, None for captures. path: the page's name is derived from it. The rest is
    known once the run has begun: since, s; captures and breaks as in analysis.live.query.LiveQuery.
    """

    path: Path
    run: Path | None
    title: str
    noun: str = "Captures"
    captures: dict[str, list[str]] = field(default_factory=dict)
    breaks: "dict[str, list[Break]]" = field(default_factory=dict)
    nodes: Sequence[str] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    since: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether a run has ended."""
        return self.run is not None and self.run.is_dir()

    @property
    def rule(self) -> "NodeRule":
        """How the node of an interface is named."""
        return "interface" if self.run else "auto"

    @property
    def is_there(self) -> bool:
        """Whether the run, or one of the captures, exists."""
        if self.run is None:
            return any(Path(path).exists() for paths in self.captures.values() for path in paths)
        return self.begin()

    def check(self) -> None:
        """Raise UserError if an existing file is no capture."""
        from captures.formats.growing import START, GrowingCapture
        from captures.formats.pcapng import CaptureError

        for paths in self.captures.values():
            with as_user_error(CaptureError):
                GrowingCapture(paths).pieces(START, most=1)

    def begin(self) -> bool:
        """Read the run's scenario, if the run has begun; return whether it has. Raises UserError."""
        if self.captures or self.run is None:
            self.since = self.since or time.time()
            return True
        for directory in (partial_of(self.run), self.run):
            path = directory / SCENARIO
            try:
                self.since = path.stat().st_mtime
                scenario = scenario_of(directory)
            except FileNotFoundError:
                if directory == self.run and directory.is_dir():
                    raise UserError(f"{path}: missing: not the directory of a run") from None
                continue
            except UserError:
                if directory != self.run:
                    return False  # being written
                raise
            self._set(scenario)
            return True
        return False

    def _set(self, scenario: Scenario) -> None:
        assert self.run is not None
        self.title, self.noun = scenario.title, "Layerings"
        directories = [partial_of(self.run), self.run]
        for name in scenario.layerings:
            self.captures[name] = [str(directory / name / CAPTURE) for directory in directories]
        roles = scenario.roles
        order = ("publisher", "peer", "subscriber", "archive", "forwarder")
        self.nodes = sorted(roles, key=lambda node: order.index(roles[node]))
        network = scenario.network
        self.links = {interface.name: network.description(interface) for interface in network.interfaces}
        breaks = list(_breaks(scenario))
        self.breaks = dict.fromkeys(scenario.layerings, breaks)


def find_target(paths: Sequence[Path]) -> Target:
    """Return the target of paths. Raises UserError."""
    from analysis.decode.reading import stem
    from captures.formats.files import is_compressed

    first = paths[0]
    try:
        run = named(first)
    except OSError as error:
        raise UserError(system_reason(error)) from error
    run = run.with_name(run.name.removesuffix(".partial") or run.name)
    if len(paths) == 1 and not first.is_file() and (first.is_dir() or first.suffix not in _CAPTURES):
        return Target(run, run, run.name)
    found: dict[str, list[str]] = {}
    for path in paths:
        name = stem(str(path))
        if path.is_dir():
            raise UserError(f"{path}: a directory; watch one run, or captures")
        if not path.parent.is_dir():
            raise UserError(f"{path.parent}: no such directory")
        if name in found:
            raise UserError(f"{path}: two captures would be {name}")
        if path.is_file() and is_compressed(path):
            raise UserError(f"{path}: compressed: it cannot be read while it grows")
        found[name] = [str(path)]
    return Target(first, None, ", ".join(map(str, paths)), captures=found)


def _breaks(scenario: Scenario) -> "Iterator[Break]":
    """Yield the scenario's events of nodes and links, on the emulator's clock, which begins at 0.

    Over Mininet the clock is another, and events long before the first packet have no effect.
    """
    from analysis.live.following import Break

    if not scenario.events and scenario.sessions is None and scenario.mobility is None:
        return
    network = scenario.network
    for at, change in Timeline.of(scenario, workload.load(scenario), 0).changes:
        for end in network.link_ends:
            if change.ends_programs and change.node in (end.node, end.peer):
                event = "restart" if change.node == end.node else "peer-restart"
                yield Break(at, end.node, end.name, event)
            elif change.tells(end.node) and end.link == network.link_between(*change.ends):
                yield Break(at, end.node, end.name, change.event)
