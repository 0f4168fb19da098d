"""`feednet analyze`: any capture with NDN in it, as the tables of every stage of an analysis."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

import click

from analysis.report.words.numbers import count_of
from testbed.cli.options import engine_option, keys_option, read_keys, spark_options
from testbed.errors import UserError, shown

if TYPE_CHECKING:
    from analysis.pipelines.captures import Analysis, Capture
    from analysis.spark.to_parquet import Report

_RULES = ("auto", "interface", "file", "address")

MOST_REASONS = 8
"""Maximum number of frame problems listed."""

_MAC = re.compile(r"[0-9a-f]{2}([:-][0-9a-f]{2}){5}")
_CAPTURE = re.compile(r"\.(pcap|pcapng|cap|dump|ntar)\d*(\.(gz|zst|zstd|bz2|xz|lz4))?$", re.IGNORECASE)
"""File names of captures in a directory."""


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="[RUN=]CAPTURE...")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="tables",
    help="Directory to write tables, summary.json and report.html into; made anew.",
)
@spark_options("Spark master; default: all cores of this machine.")
@engine_option
@click.option("--packets-only", is_flag=True, help="Decode only.")
@click.option(
    "--node",
    "rule",
    type=click.Choice(_RULES),
    default="auto",
    help="What names the node: the interface (r1 of r1-eth0), the file, or the sender's address (the"
    " receiver's of a frame that came in); auto: the interface if it is named like that, else the file.",
)
@click.option(
    "--local",
    multiple=True,
    metavar="[WHERE=]ADDRESS",
    help="IP or MAC address of the node that captured, of an interface, node or file if you give it: tells"
    " what was sent and what received. Default: the one address that takes part in nearly all frames.",
)
@click.option(
    "--udp-port",
    "udp",
    type=click.IntRange(1, 65535),
    multiple=True,
    help="Port of NDN; default 6363, 56363.",
)
@click.option(
    "--tcp-port",
    "tcp",
    type=click.IntRange(1, 65535),
    multiple=True,
    help="Port of NDN; default 6363, and 9696 for WebSocket.",
)
@keys_option
def analyze(
    captures: tuple[str, ...],
    out: Path,
    master: str | None,
    engine: str,
    packets_only: bool,
    rule: str,
    local: tuple[str, ...],
    udp: tuple[int, ...],
    tcp: tuple[int, ...],
    key_logs: tuple[Path, ...],
) -> None:
    """Analyse captures: packets, transactions, PITs, feeds, latency, overhead and events, as Parquet
    (docs/tables.md has the columns).

    A CAPTURE is a pcap or pcapng file of tcpdump, tshark, Wireshark, Mini-NDN or feednet, compressed or not;
    a directory stands for all captures in it. Captures with the same RUN are of one experiment; without RUN a
    capture is a run by itself, called like the file without suffixes.
    """
    from analysis.decode.reading import NodeRule
    from analysis.pipelines.captures import AnalysisOptions, UnknownPlace, analyse
    from captures.layers.layers import Ports

    assert get_args(NodeRule) == _RULES
    files = _captures(captures)
    place = out.resolve()
    _utf_8(place)
    if place.is_file() or (place.is_dir() and any(place.iterdir())):
        raise UserError(f"{shown(str(out))} is there already: remove it, or choose another --out")
    usual = Ports()
    choices = AnalysisOptions(
        cast(NodeRule, rule),
        Ports(frozenset(udp) or usual.udp, frozenset(tcp) or usual.tcp),
        tuple(map(_local, local)),
        packets_only,
        engine,
        master,
        read_keys(key_logs),
    )
    try:
        analysis = analyse(files, place, choices)
    except UnknownPlace as error:
        raise UserError(
            f"--local {shown(error.where)}={error.address}: no interface, node or file is called"
            f" {shown(error.where)}; there are {', '.join(map(shown, error.names))}"
        ) from error
    _print_analysis(analysis, out, place)


def _print_analysis(analysis: "Analysis", out: Path, place: Path) -> None:
    """Print the findings, and write the report into `place`, printed as `out`. Raises UserError."""
    from analysis.errors import AnalysisError
    from analysis.pipelines.captures import REPORT, show
    from analysis.report.words.numbers import NARROW_SPACE

    per_run = Counter(report.run for report in analysis.reports)
    for report in analysis.reports:
        local_to = analysis.inferred.get(report.path, {})
        click.echo(_summary(report, local_to, with_path=per_run[report.run] > 1))
    for path, original in analysis.copies.items():
        click.echo(f"copies   {shown(path)} is like {shown(original)}: the same frames at the same times")
    if analysis.spark is None:
        click.echo(f"packets  {out / 'packets'}")
        return
    click.echo(f"tables   {out}")
    try:
        figures = show(analysis, place)
    except AnalysisError as error:
        raise UserError(f"the tables are in {out}, but the report cannot be made: {error}") from error
    with_messages = {report.run for report in analysis.reports if report.messages}
    for each in figures:
        if each.run in with_messages and not each.requests:
            continue  # not NDN
        click.echo(str(each).replace(NARROW_SPACE, " "))
    click.echo(f"report   {out / REPORT}")


def _utf_8(path: Path) -> None:
    """Raise UserError if a path is no text: tables and Spark could not represent it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UserError(f"{shown(str(path))}: this name is not in UTF-8: rename it") from None


def _captures(texts: Sequence[str]) -> list["Capture"]:
    """Return the captures named by arguments."""
    from analysis.decode.reading import directory_name, stem
    from analysis.pipelines.captures import Capture
    from analysis.spark.parquet import NO_VALUE

    runs: dict[str, list[Path]] = defaultdict(list)
    named_files = set()
    for text in texts:
        run, equals, name = text.partition("=")
        if not equals or "/" in run:
            run, name = "", text
        elif not run:
            raise UserError(
                f"{shown(text)}: RUN has no name: write RUN={shown(name)}, or ./{shown(text)} for a file"
            )
        path = Path(name)
        _utf_8(path.resolve())
        if not path.exists():
            raise UserError(f"{shown(name)}: no such file")
        run, named = directory_name(run or (path.resolve().name if path.is_dir() else stem(name))), run
        if run == NO_VALUE:
            raise UserError(
                f"{shown(text)}: {NO_VALUE} stands for none in tables: name it, RUN={shown(name)}"
            )
        if not named and run in runs:
            raise UserError(
                f"{shown(text)}: two captures would be {shown(run)}: name them, RUN={shown(name)};"
                " captures of the same RUN are analysed together"
            )
        if path.is_dir():
            found = sorted(each for each in path.rglob("*") if each.is_file() and _CAPTURE.search(each.name))
            if not found:
                raise UserError(f"{shown(name)}: no captures in it (*.pcap, *.pcapng, compressed or not)")
            for each in found:
                _utf_8(each)
        else:
            found = [path]
            named_files.add(path)
        runs[run] += found
    captures = []
    for run, paths in runs.items():
        if len({path.resolve() for path in paths}) < len(paths):
            raise UserError(f"{shown(run)}: a capture is given twice")
        keys = [(path.resolve().parent, stem(path.name)) for path in paths]
        names = _capture_names(run, set(keys))
        captures += [
            Capture(run, path, directory_name(names[key]), path in named_files)
            for path, key in zip(paths, keys, strict=True)
        ]
    return captures


def _capture_names(run: str, keys: Set[tuple[Path, str]]) -> dict[tuple[Path, str], str]:
    """Name a run's files, each given as its directory and its stem.

    Hosts may have equally named files; then parent directories are added until names differ.
    """
    depths = dict.fromkeys(keys, 0)
    while True:
        names = {key: "-".join([*key[0].parts[len(key[0].parts) - depths[key] :], key[1]]) for key in keys}
        times = Counter(names.values())
        alike = sorted(key for key in keys if times[names[key]] > 1)
        if not alike:
            return names
        for key in alike:
            depths[key] += 1
            if depths[key] >= len(key[0].parts):
                raise UserError(f"{shown(run)}: two nodes would be {shown(names[key])}: rename a capture")


def _local(text: str) -> tuple[str, str]:
    """Return the place of an address of --local, and the address in capture notation."""
    where, _, address = text.rpartition("=")
    address = address.lower()
    if _MAC.fullmatch(address):
        return where, address.replace("-", ":")
    try:
        return where, str(ip_address(address))
    except ValueError:
        raise UserError(f"--local {shown(text)}: no IP or MAC address") from None


def _summary(report: "Report", local: Mapping[str, str], *, with_path: bool) -> str:
    """Summarise a capture in a few lines."""
    from analysis.decode.protocols.protocol import NDN
    from captures.layers.link_types import remedy

    lines = [
        f"{report.run}: {count_of(report.frames, 'frame')}"
        + (f" in {shown(report.path)}" if with_path else "")
    ]
    if report.kinds:
        counted = sorted(report.kinds.items(), key=lambda item: (-item[1], item[0]))
        lines.append("  packets  " + ", ".join(f"{count} {kind}" for kind, count in counted))
    if report.problems:
        counted = sorted(report.problems.items(), key=lambda item: (-item[1], item[0]))
        said = [f"{count} {reason}" for reason, count in counted[:MOST_REASONS]]
        if rest := counted[MOST_REASONS:]:
            said.append(f"{sum(count for _, count in rest)} for {len(rest)} other reasons (summary.json)")
        lines.append("  problems " + ", ".join(said))
        if advice := remedy(list(report.problems)):
            lines.append(f"  advice   {advice}")
    if local:
        ends = sorted(set(local.values()))
        lines.append(f"  captured by {', '.join(ends)}, as far as addresses tell (else: --local)")
    if report.directions.get("unknown"):
        lines.append(
            f"  direction unknown of {count_of(report.directions['unknown'], 'frame')} (--local may tell)"
        )
    if report.gaps or report.skipped:
        lines.append(
            f"  streams  {count_of(report.gaps, 'gap')}, {report.skipped} bytes that belong to no packet"
        )
    damaged = Counter(reason for _, _, reason in report.damages)
    for reason, count in damaged.items():
        places = [each for each in report.damages if each[2] == reason]
        size = sum(each[1] for each in places)
        where = f" from byte {places[0][0]} on" if places[0][0] >= 0 else ""
        lines.append(f"  damage   {count} x {reason}, {size} bytes{where}")
    if set(report.protocols) - {NDN}:
        counted = sorted(report.protocols.items(), key=lambda item: (-item[1], item[0]))
        lines.append("  frames of " + ", ".join(f"{name} {count}" for name, count in counted))
    for protocol, kinds in sorted(report.messages.items()):
        messages = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        lines.append(f"  messages of {protocol}: {messages}")
    if report.connections:
        lines.append(f"  TCP connections: {report.connections}")
    return "\n".join(lines)
