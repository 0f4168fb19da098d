"""Third-party captures: from bytes to tables, a summary and a page."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from analysis.decode.capture_point import infer_local_addresses
from analysis.decode.reading import NodeRule, Reading, node_of
from analysis.errors import AnalysisError, one_line_errors
from analysis.files import whole_directory
from analysis.packet_schema import PACKETS
from analysis.pipelines.capture_page import write_capture_report
from analysis.pipelines.capture_summary import copies_among, summarise
from analysis.pipelines.capture_tables import write_tables
from analysis.report.capture.findings import RunFigures
from analysis.spark.engine import SMALL_BYTES, choose, session
from analysis.spark.parquet import BY, at_least_empty, directories
from analysis.spark.to_parquet import Report, extract
from base.key_log import Secrets
from captures.formats.files import EMPTY_FILE, cut
from captures.formats.pcapng import CaptureError
from captures.layers.layers import Ports

REPORT = "report.html"
SUMMARY = "summary.json"


class Capture(NamedTuple):
    """A capture: its run, path and name, and whether the user named it (not its directory)."""

    run: str
    path: Path
    name: str
    is_named: bool


class AnalysisOptions(NamedTuple):
    """Options for reading and analysing captures.

    Attributes:
        rule: how nodes are named.
        ports: of NDN.
        local: addresses of the capturing nodes, each with its interface, node or file, "" for all.
        packets_only: write no tables except packets.
        engine, master: see analysis.spark.engine.choose.
        secrets: decryption keys, besides those in the captures.
    """

    rule: NodeRule
    ports: Ports
    local: tuple[tuple[str, str], ...]
    packets_only: bool
    engine: str
    master: str | None
    secrets: Secrets = frozenset()


class Analysis(NamedTuple):
    """Results of an analysis of captures.

    Attributes:
        reports: of each capture.
        inferred: by path, the inferred addresses of the capturing nodes.
        copies: by path, the earlier capture that it copies.
        spark: the session that made the tables; None if there are only packets.
    """

    reports: list[Report]
    inferred: dict[str, dict[str, str]]
    copies: dict[str, str]
    spark: SparkSession | None


class UnknownPlace(AnalysisError):
    """An address is assigned to an unknown interface, node or file; `names` are the known ones."""

    def __init__(self, where: str, address: str, names: list[str]) -> None:
        super().__init__(f"no interface, node or file is called {where}")
        self.where, self.address, self.names = where, address, names


def analyse(captures: Sequence[Capture], place: Path, choices: AnalysisOptions) -> Analysis:
    """Write the tables of captures, and their summary, into the new directory `place`.

    Raises AnalysisError, CaptureError or OSError, and then leaves no directory.
    """
    size = sum(capture.path.stat().st_size for capture in captures)
    is_small = size <= SMALL_BYTES and choices.master is None
    chosen = choose(choices.engine, choices.master, [capture.path for capture in captures])
    readings, unread = _readings(captures, choices)
    inferred = {} if choices.local or choices.rule == "address" else infer_local_addresses(readings)
    readings = [
        each._replace(local=tuple(inferred.get(each.piece.path, {}).items()) or choices.local)
        for each in readings
    ]
    with one_line_errors(), whole_directory(place) as partial:
        packets = partial / "packets"
        packets.mkdir()
        spark = session(chosen, small=is_small)
        reports = extract(readings, packets, BY, spark, choices.secrets)
        reports += unread
        if not any(packets.rglob("*.parquet")):  # no frame at all
            at_least_empty(packets, PACKETS, [readings[0].run], BY)
        _check_places(choices.local, readings, packets)
        if not choices.packets_only:
            fragments = any("fragment" in report.kinds for report in reports)
            runs = list(dict.fromkeys(report.run for report in reports))
            write_tables(partial, runs, spark, fragments=fragments, small=is_small)
        copies = copies_among(reports)
        summarise(partial / SUMMARY, reports, inferred, copies)
    return Analysis(reports, inferred, copies, None if choices.packets_only else spark)


def show(analysis: Analysis, place: Path) -> list[RunFigures]:
    """Write the page of analysed tables, and its headline figures into the summary; return these.

    Raises AnalysisError, and keeps the tables.
    """
    assert analysis.spark is not None
    with one_line_errors():
        figures = write_capture_report(place, place / REPORT, analysis.spark)
    summarise(place / SUMMARY, analysis.reports, analysis.inferred, analysis.copies, figures)
    return figures


def _readings(captures: Sequence[Capture], choices: AnalysisOptions) -> tuple[list[Reading], list[Report]]:
    """Cut captures into pieces; return these, and reports of the unreadable captures."""
    readings: list[Reading] = []
    unread: list[Report] = []
    for capture in captures:
        try:
            pieces = list(cut(capture.path))
        except CaptureError as error:
            # Empty or unreadable files in a directory do not stop the others.
            if len(captures) == 1 or (capture.is_named and error.reason != EMPTY_FILE):
                raise
            damage = (error.offset, capture.path.stat().st_size, error.reason)
            unread.append(Report(capture.run, str(capture.path), 0, {}, {}, [damage]))
            continue
        readings += [
            Reading(capture.run, piece, choices.rule, choices.ports, capture.name, choices.local)
            for piece in pieces
        ]
    if not readings:
        whys = ", ".join(dict.fromkeys(reason for report in unread for _, _, reason in report.damages))
        raise AnalysisError(f"{len(captures)} captures, and none of them can be read: {whys}")
    return readings, unread


def _check_places(own: Sequence[tuple[str, str]], readings: Sequence[Reading], packets: Path) -> None:
    """Raise UnknownPlace if an address is assigned to an interface without packets, or an unknown node or
    file.
    """
    found = (directories(path).get("interface") for path in packets.rglob("*.parquet"))
    names = {reading.file_name for reading in readings} | {name for name in found if name}
    for where, address in own:
        if where and where not in names | {node_of(name) for name in names}:
            raise UnknownPlace(where, address, sorted(names))
