"""The command `feednet dissect`: a capture, packet by packet, on a terminal or for a program.

Scapy is slow to import, so it is imported when the command runs.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from base.key_log import Secrets
from base.units import MS
from captures.formats.files import secrets_in
from captures.formats.pcapng import CaptureError
from testbed.cli.console import console
from testbed.cli.options import MOST, keys_option, read_keys
from testbed.cli.usage import exclude, require
from testbed.errors import UserError, shown

if TYPE_CHECKING:
    from captures.dissectors.reading import Row

_ALIGNED = 500
"""Rows that determine the column widths."""
_STYLES = {
    "LLI": "bold magenta",
    "Interest": "cyan",
    "Data": "green",
    "FeedState": "yellow",
    "Nack": "bold red",
    "Malformed": "bold white on red",
}


@click.command()
@click.argument("capture", required=False, type=click.Path(path_type=Path))
@click.option("--filter", "filter_text", metavar="EXPR", help="Show what matches, e.g. 'ndn.type == LLI'.")
@click.option("--packet", type=click.IntRange(1, MOST), metavar="N", help="Show frame N in full.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a packet, for programs.")
@click.option("--fields", "field_names", metavar="NAMES", help="Print these fields, e.g. ndn.name,ndn.type.")
@keys_option
@click.option("--wireshark-plugin", is_flag=True, help="Print where the plugin for Wireshark is.")
@click.option("--install", is_flag=True, help="With --wireshark-plugin: copy it to where Wireshark looks.")
def dissect(
    capture: Path | None,
    filter_text: str | None,
    packet: int | None,
    as_json: bool,
    field_names: str | None,
    key_logs: tuple[Path, ...],
    wireshark_plugin: bool,
    install: bool,
) -> None:
    """Show the packets of CAPTURE (pcap or pcapng), one a line: when, where, who to whom, what.

    A filter is what Wireshark would take: fields, comparisons (== != < <= > >= contains matches), and, or,
    not, parentheses. The fields have the names of the plugin for Wireshark.
    """
    if wireshark_plugin or install:
        require("install", "wireshark_plugin")
        exclude("wireshark_plugin", "capture", "filter_text", "packet", "as_json", "field_names", "key_logs")
        _plugin(install)
        return
    if capture is None:
        raise click.UsageError("Missing argument 'CAPTURE'.")
    if sum((packet is not None, as_json, field_names is not None)) > 1:
        raise click.UsageError("--packet, --json and --fields exclude each other.")
    rows = _rows(capture, filter_text, read_keys(key_logs))
    try:
        if packet is not None:
            _show_packet(rows, packet, capture)
        elif field_names is not None:
            _show_fields(rows, field_names)
        elif as_json:
            for row in rows:
                click.echo(json.dumps(_as_json(row)))
        else:
            _show_rows(rows)
    except BrokenPipeError:
        # The reader has closed the pipe. Python's final flush must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plugin(install: bool) -> None:
    from captures.dissectors import WIRESHARK_PLUGIN, WIRESHARK_PLUGINS

    if not install:
        click.echo(WIRESHARK_PLUGIN)
        return
    target = WIRESHARK_PLUGINS.expanduser() / WIRESHARK_PLUGIN.name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(WIRESHARK_PLUGIN, target)
    except OSError as error:
        raise UserError(f"{target}: {error.strerror}; put {WIRESHARK_PLUGIN} there yourself") from error
    click.echo(target)


def _rows(capture: Path, filter_text: str | None, secrets: Secrets) -> "Iterator[Row]":
    from captures.dissectors.filter import InvalidFilter, compile_filter, interfaces_in
    from captures.dissectors.reading import UnreadableCapture, read_rows
    from testbed.cli.captures.streams import StreamLines

    try:
        wanted = compile_filter(filter_text) if filter_text is not None else None
    except InvalidFilter as error:
        raise UserError(f"--filter {shown(filter_text)}: {error}") from error
    interfaces = set()
    try:
        with suppress(CaptureError):  # reported by the reader
            secrets |= secrets_in(capture)
        streams = StreamLines(secrets)
        for row in map(streams.describe, read_rows(capture)):
            interfaces.add(row.interface)
            if wanted is None or wanted(row.fields):
                yield row
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"{capture}: {error.strerror}") from error
    except UnreadableCapture as error:
        raise UserError(str(error)) from error
    for name in interfaces_in(filter_text or ""):
        if name not in interfaces:
            known = ", ".join(sorted(interfaces - {""})) or "none with a name"
            raise UserError(
                f"--filter {shown(filter_text)}: no interface is called {name}; there are: {known}"
            )


def _show_rows(rows: "Iterator[Row]") -> None:
    errors: list[UserError] = []
    readable = _until_error(rows, errors)
    first = list(islice(readable, _ALIGNED))
    if first:
        widths = _Widths(first)
        for row in chain(first, readable):
            line = widths.line(row)
            if console.is_terminal:
                console.print(line)
            else:
                click.echo(line.plain)
    if errors:
        raise errors[0]


def _until_error(rows: "Iterator[Row]", errors: list[UserError]) -> "Iterator[Row]":
    """Yield the rows; keep the error that ends them, to raise it after all are printed."""
    try:
        yield from rows
    except UserError as error:
        errors.append(error)


class _Widths:
    """Columns wide enough for the first rows."""

    def __init__(self, rows: "list[Row]") -> None:
        self._number = max(5, *(len(str(row.number)) for row in rows))
        self._interface = max(len(row.interface) for row in rows)
        self._direction = max(len(row.direction) for row in rows)
        self._src = max(len(row.src) for row in rows)
        self._dst = max(len(row.dst) for row in rows)

    def line(self, row: "Row") -> Text:
        text = Text()
        text.append(f"{row.number:>{self._number}} {row.since / MS:12.3f} ms", "dim")
        if self._interface:
            text.append(f"  {row.interface:<{self._interface}}")
        if self._direction:
            text.append(f" {row.direction:<{self._direction}}", "dim")
        text.append(f"  {row.src:>{self._src}} → {row.dst:<{self._dst}}  ")
        kind = next((value for name, value in row.fields if name == "ndn.type"), "")
        word, space, rest = row.line.partition(" ")
        text.append(word, _STYLES.get(kind, "dim"))
        text.append(space + rest, "" if row.is_ndn else "dim")
        return text


def _show_fields(rows: "Iterator[Row]", field_names: str) -> None:
    from captures.dissectors.fields import printable
    from captures.dissectors.filter import InvalidFilter, check_field
    from captures.dissectors.summary import value_text

    try:
        names = [check_field(name.strip()) for name in field_names.split(",")]
    except InvalidFilter as error:
        raise UserError(f"--fields {shown(field_names)}: {error}") from error
    for row in rows:
        columns = (
            ",".join(printable(value_text(name, value)) for field, value in row.fields if field == name)
            for name in names
        )
        click.echo("\t".join(columns))


def _as_json(row: "Row") -> dict[str, Any]:
    fields: dict[str, list[Any]] = {}
    for name, value in row.fields:
        fields.setdefault(name, []).append(_json_value(name, value))
    return {
        "number": row.number,
        "time_ns": row.time,
        "interface": row.interface,
        "direction": row.direction,
        "src": row.src,
        "dst": row.dst,
        "summary": row.line,
        "fields": fields,
    }


def _json_value(name: str, value: Any) -> Any:
    from captures.dissectors.summary import value_text

    return value_text(name, value) if isinstance(value, bytes) else value


def _show_packet(rows: "Iterator[Row]", number: int, capture: Path) -> None:
    for row in rows:
        if row.number != number:
            continue
        if console.is_terminal:
            from scapy.config import conf
            from scapy.themes import DefaultTheme

            conf.color_theme = DefaultTheme()
        click.echo(f"frame {row.number}, {len(row.frame)} bytes: {row.line}")
        click.echo(str(row.frame.show(dump=True)).rstrip())
        for whole in row.reassembled:
            click.echo(f"reassembled from {whole.fragments} fragments:")
            click.echo(str(whole.packet.show(dump=True)).rstrip())
        return
    raise UserError(f"{capture}: no frame {number} to show")
