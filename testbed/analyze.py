"""`feednet analyze`: any capture with NDN in it, as a table of packets."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from testbed.errors import UserError, shown

if TYPE_CHECKING:
    from analysis.extract import Report

_RULES = ("auto", "interface", "file", "address")
SMALL_BYTES = 128 << 20
"""Captures up to this size in all are decoded before Spark would have started."""


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="[NAME=]CAPTURE...")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="tables",
    show_default=True,
    help="Directory to write packets/ and summary.json into.",
)
@click.option("--master", help="Spark master; default local, and for small captures none.")
@click.option(
    "--node",
    "rule",
    type=click.Choice(_RULES),
    default="auto",
    show_default=True,
    help="What names the node: the interface (r1 of r1-eth0), the file, or the sender's address (the"
    " receiver's of a frame that came in); auto: the interface if it is named like that, else the file.",
)
@click.option(
    "--udp-port",
    "udp",
    type=click.IntRange(1, 65535),
    multiple=True,
    help="Port of NDN; default 6363, 56363.",
)
@click.option(
    "--tcp-port", "tcp", type=click.IntRange(1, 65535), multiple=True, help="Port of NDN; default 6363."
)
def analyze(
    captures: tuple[str, ...],
    out: Path,
    master: str | None,
    rule: str,
    udp: tuple[int, ...],
    tcp: tuple[int, ...],
) -> None:
    """Decode the NDN packets of captures into Parquet (docs/tables.md has the columns).

    A CAPTURE is a pcap or pcapng file of tcpdump, tshark, Wireshark, Mini-NDN or feednet, compressed or
    not. Its table is run=NAME, by default the file's name without suffixes.
    """
    from analysis.errors import AnalysisError
    from analysis.extract import extract
    from analysis.reading import NodeRule, Reading
    from analysis.schema import PARTITIONS
    from analysis.session import spark_session
    from captures.files import cut
    from captures.layers import Ports
    from captures.pcapng import CaptureError

    assert get_args(NodeRule) == _RULES
    named = _named(captures)
    packets = out / "packets"
    if packets.exists() and any(packets.iterdir()):
        raise UserError(f"{packets} is there already: remove it, or choose another --out")
    usual = Ports()
    ports = Ports(frozenset(udp) or usual.udp, frozenset(tcp) or usual.tcp)
    columns = ("layering", "node", "interface")
    try:
        readings = [Reading(name, piece, rule, ports) for name, path in named.items() for piece in cut(path)]  # type: ignore[arg-type]
        size = sum(path.stat().st_size for path in named.values())
        spark = spark_session(master) if master or size > SMALL_BYTES else None
        reports = extract(readings, packets, dict(zip(PARTITIONS, columns, strict=True)), spark)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from error
    except (CaptureError, AnalysisError) as error:
        raise UserError(str(error)) from error
    finally:
        if packets.is_dir() and not any(packets.iterdir()):
            shutil.rmtree(packets)
    (out / "summary.json").write_text(
        json.dumps([each._asdict() for each in reports], indent=1) + "\n", encoding="utf-8"
    )
    for report in reports:
        click.echo(_told(report))
    click.echo(f"packets  {packets}")


def _named(captures: tuple[str, ...]) -> dict[str, Path]:
    """Return the captures by name."""
    from analysis.reading import stem

    named: dict[str, Path] = {}
    for text in captures:
        name, equals, path = text.partition("=")
        if not equals or "/" in name:
            name, path = stem(text), text
        if not name or name in named:
            raise UserError(
                f"{shown(text)}: two captures would be {shown(name)}: name them, NAME={shown(path)}"
            )
        if not Path(path).is_file():
            raise UserError(f"{shown(path)}: no such file")
        named[name] = Path(path)
    return named


def _told(report: "Report") -> str:
    """Say in a few lines what was found in a capture."""
    lines = [f"{report.run}: {report.frames} frames"]
    if report.kinds:
        counted = sorted(report.kinds.items(), key=lambda item: (-item[1], item[0]))
        lines.append("  packets  " + ", ".join(f"{count} {kind}" for kind, count in counted))
    if report.problems:
        counted = sorted(report.problems.items(), key=lambda item: (-item[1], item[0]))
        lines.append("  unread   " + ", ".join(f"{count} {reason}" for reason, count in counted))
    if report.gaps or report.skipped:
        lines.append(f"  streams  {report.gaps} gaps, {report.skipped} bytes that belong to no packet")
    damaged = Counter(reason for _, _, reason in report.damages)
    for reason, count in damaged.items():
        places = [each for each in report.damages if each[2] == reason]
        size = sum(each[1] for each in places)
        where = f" from byte {places[0][0]} on" if places[0][0] >= 0 else ""
        lines.append(f"  damage   {count} x {reason}, {size} bytes{where}")
    return "\n".join(lines)
