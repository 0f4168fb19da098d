"""A run directory as read by the analysis: the manifest, and the paths of all files.

RUN/manifest.json, scenario.json, feed.jsonl
RUN/<layering>/capture.pcapng, events.jsonl, counters.jsonl     measurements
RUN/<layering>/keys.log                                         decryption keys, if the layering encrypts
RUN/tables/, RUN/report.html                                    added by the analysis
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field, ValidationError

from analysis.decode.protocols.protocol import NDN
from analysis.errors import AnalysisError
from topologies.link import LinkParameters
from topologies.radio import Radio

MANIFEST = "manifest.json"
FORMAT = 2
"""The supported manifest format."""

_OF_A_LAYERING = ("capture.pcapng", "events.jsonl", "counters.jsonl")


class Question(BaseModel):
    """What the scenario asks: the metrics that answer it, which of their values are better ("lower",
    "higher") if the metric itself does not say so, and the relative difference that matters, by metric.
    """

    text: str
    metrics: list[str]
    direction: dict[str, str] = {}
    difference: dict[str, float] = {}


class Node(BaseModel):
    """A node of the topology; role is "publisher", "subscriber", "peer" for both, "archive", "gateway" or
    "forwarder".
    """

    name: str
    role: str


@dataclass(frozen=True, kw_only=True)
class Link(LinkParameters):
    """A link of the topology, and the interfaces at its ends."""

    a: str
    b: str
    interface_a: str = ""
    interface_b: str = ""
    cost: float | None = None
    cost_back: float | None = None
    least_ns: int | None = None
    """Minimum delay of a frame during the run, if the link has changed."""

    @property
    def least_delay_ns(self) -> int:
        """Minimum propagation delay of a frame, ns."""
        return super().least_delay_ns if self.least_ns is None else self.least_ns

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "ignore"}


@dataclass(frozen=True, kw_only=True)
class Medium(LinkParameters):
    """A broadcast medium: its members, the interface of each, the loss_percent of those that differ, and the
    radio of a radio cell.

    `words`: description, including the radio.
    """

    name: str
    members: list[str]
    interfaces: list[str]
    losses: dict[str, float]
    radio: Radio | None = None
    words: str = ""

    def describe(self) -> str:
        return self.words or super().describe()

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "ignore"}


class Topology(BaseModel):
    """The network of the run: `source` is its description outside the scenario; `replaced` are parameters of
    all links that override it, by name.
    """

    nodes: list[Node] = Field(min_length=1)
    links: list[Link]
    media: list[Medium] = []
    metric: str = "delay"
    source: str = ""
    replaced: dict[str, Any] = {}

    @property
    def neighbours(self) -> Iterator[tuple[str, str, LinkParameters]]:
        """All pairs (sender, receiver) joined by a link or medium, with its properties."""
        for link in self.links:
            yield link.a, link.b, link
            yield link.b, link.a, link
        for medium in self.media:
            for sender, receiver in permutations(medium.members, 2):
                yield sender, receiver, medium


class Feed(BaseModel):
    """A feed: its URI as analysis.decode.reference formats it, its publisher, and its number of items."""

    feed: str
    publisher: str
    items: int = Field(ge=0)


class CrossTraffic(BaseModel):
    """Items that one node fetches from another besides the compared workload, under every layering alike."""

    feed: str
    sender: str = Field(alias="from")
    receiver: str = Field(alias="to")


class Workload(BaseModel):
    """The workload.

    `expected`: items that each subscriber should receive in all; `paced`: nodes whose application consumes
    items at its own pace, or pauses; `application`: whose messages the items are, as `feednet ssb view`
    calls it, or ""; `written`: items that an author writes on two devices, if it has two.
    """

    source: str
    items: int = Field(ge=0)
    written: int | None = None
    subscribers: int = Field(ge=0)
    feeds: list[Feed]
    expected: dict[str, int]
    paced: list[str] = []
    application: str = ""
    cross_traffic: list[CrossTraffic] = []


class ScenarioEvent(BaseModel):
    """A scenario event of a link ("a--b") or a node, `time_ns` after a layering's start.

    `signalled`: whether a link's ends notice its going down or up. `strategy`: the new forwarding strategy,
    of all nodes if there is no `node`. `layering`: the affected run; "" for all.
    """

    time_ns: int
    event: str
    link: str = ""
    node: str = ""
    signalled: bool = False
    strategy: str = ""
    layering: str = ""

    @property
    def words(self) -> str:
        """Description of the event, with its layering if not all."""
        text = " ".join(filter(None, (self.event, self.strategy, self.place)))
        return f"{text} ({self.layering})" if self.layering else text

    @property
    def place(self) -> str:
        """The link or node."""
        return self.link or self.node


class Fork(BaseModel):
    """A second device, node `publisher`, signs another item `after` + 1; only earlier items count."""

    feed: str
    publisher: str
    after: int


class CaptureCounts(BaseModel):
    """Frames seen by the recorder, and frames it lost."""

    frames: int = 0
    dropped: int = 0


class Sealed(BaseModel):
    """A file of the run, as sealed at its end."""

    bytes: int
    sha256: str


class Program(BaseModel):
    """A user's program, and its exit status; None if it ran until the end."""

    node: str
    run: list[str]
    status: int | None


class LayeringRun(BaseModel):
    """One layering's run; times in ns.

    Sequence: start; first and last publication; settling after the last scenario event; end of subscriptions;
    draining; end. cpu_ns: processor time of each node's process, or by the cost model. cells: statistics
    of each member of each radio cell, as topologies.radio counts them.
    """

    start_ns: int
    first_ns: int
    last_ns: int
    settle_ns: int
    stop_ns: int
    end_ns: int
    sample_interval_ns: int = Field(gt=0)
    cells: dict[str, dict[str, dict[str, int]]] = {}
    cpu_ns: dict[str, int] = {}
    programs: list[Program] = []
    capture: CaptureCounts = CaptureCounts()


class _Head(BaseModel):
    """Fields in the manifest of every feednet version: the first had no format."""

    feednet: str
    format: int = 1


class Manifest(BaseModel):
    """manifest.json, as far as the analysis reads it.

    `command` repeats the run; `about` is a hint for readers, `question` what the report answers; `titles`
    describe layerings, `protocols` are theirs; `strategies` are by name prefix, if not the default;
    `forwarders` are third-party ones, by node; `files` are by path in the run's directory. `scripted`: a
    script changed the network; `held`: the run's end was decided interactively.
    """

    feednet: str
    commit: str | None = None
    command: str | None = None
    scripted: bool = False
    held: bool = False
    scenario: str
    title: str = ""
    about: str = ""
    question: Question | None = None
    seed: int
    net: str
    net_reason: str = ""
    impairment: str = ""
    impairment_reason: str = ""
    dilation: int = Field(default=1, ge=1)
    created: str | None = None
    layerings: list[str] = Field(min_length=1)
    titles: dict[str, str] = {}
    protocols: dict[str, str] = {}
    parameters: dict[str, dict[str, Any]] = {}
    strategies: dict[str, str] = {}
    forwarders: dict[str, str] = {}
    workload: Workload
    topology: Topology
    timeline: list[ScenarioEvent] = []
    fork: Fork | None = None
    software: dict[str, Any] = {}
    processor: str = ""
    runs: dict[str, LayeringRun]
    files: dict[str, Sealed]

    @property
    def expected_deliveries(self) -> int:
        """Total number of expected deliveries."""
        return sum(self.workload.expected.values())

    @property
    def has_drops(self) -> bool:
        """Whether a capture lacks frames."""
        return any(run.capture.dropped for run in self.runs.values())

    @property
    def takers(self) -> list[str]:
        """Names of possible subscribers: nodes with expected items, and archives."""
        return list(dict.fromkeys([*self.workload.expected, *self.nodes("archive")]))

    def protocol(self, layering: str) -> str:
        """Return the protocol that carries a layering's feeds between nodes."""
        return self.protocols.get(layering, NDN)

    @property
    def over_ndn(self) -> list[str]:
        """The layerings with PITs."""
        return [layering for layering in self.layerings if self.protocol(layering) == NDN]

    def happenings(self, layering: str) -> list[ScenarioEvent]:
        """Return the scenario's events in a layering's run."""
        return [event for event in self.timeline if event.layering in ("", layering)]

    def nodes(self, role: str) -> list[str]:
        """Return the names of the nodes with a role."""
        return [node.name for node in self.topology.nodes if node.role == role]


class Run:
    """A run directory. Raises AnalysisError for a missing file, or one whose size has changed since the run
    ended.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest = _read_manifest(directory / MANIFEST)
        for layering in self.manifest.layerings:
            if layering not in self.manifest.runs:
                raise AnalysisError(f"{directory / MANIFEST}: runs: nothing about layering {layering!r}")
            for name in _OF_A_LAYERING:
                if f"{layering}/{name}" not in self.manifest.files:
                    raise AnalysisError(f"{directory / MANIFEST}: files: nothing about {layering}/{name}")
        for name, seal in self.manifest.files.items():
            path = directory / name
            if not path.is_file():
                raise AnalysisError(f"{path}: missing: the run has not ended, or has been moved in part")
            if (size := path.stat().st_size) != seal.bytes:
                raise AnalysisError(
                    f"{path}: {size} bytes, and not the {seal.bytes} of when the run ended: copy the run"
                    " again, whole, or run it again"
                )

    def verify(self) -> None:
        """Verify every file of the run; raise AnalysisError if one has changed since the run ended."""
        for name, seal in self.manifest.files.items():
            with (self.directory / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != seal.sha256:
                    raise AnalysisError(
                        f"{self.directory / name}: not what it was when the run ended (its SHA-256 is"
                        " another): copy the run again, whole, or run it again"
                    )

    def capture(self, layering: str) -> Path:
        """Return the path of a layering's capture."""
        return self.directory / layering / "capture.pcapng"

    def events(self, layering: str) -> Path:
        """Return the path of a layering's application events."""
        return self.directory / layering / "events.jsonl"

    @property
    def feeds(self) -> Path:
        """The path of the export of all published feeds."""
        return self.directory / "feed.jsonl"

    def counters(self, layering: str) -> Path:
        """Return the path of a layering's forwarder counters."""
        return self.directory / layering / "counters.jsonl"

    @property
    def tables(self) -> Path:
        """The directory of the tables."""
        return self.directory / "tables"

    @property
    def comparison(self) -> Path:
        """Path of the comparison's table."""
        return self.tables / "comparison.parquet"

    @property
    def report(self) -> Path:
        """The path of the report."""
        return self.directory / "report.html"


def _read_manifest(path: Path) -> Manifest:
    try:
        text = path.read_bytes()
        head = _Head.model_validate_json(text)
        if head.format == FORMAT:
            return Manifest.model_validate_json(text)
    except FileNotFoundError:
        raise AnalysisError(f"{path}: missing: not a run directory") from None
    except OSError as error:
        raise AnalysisError(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise AnalysisError(f"{path}: {place + ': ' if place else ''}{first['msg']}") from None
    if head.format < FORMAT:
        raise AnalysisError(f"{path}: of an older feednet, and no longer read: run it again")
    raise AnalysisError(
        f"{path}: of a newer feednet, {head.feednet} (format {head.format}, and this one reads {FORMAT}):"
        " analyse it with that one"
    )
