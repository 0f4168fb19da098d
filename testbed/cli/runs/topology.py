"""`feednet topology`: a network's summary, and the network as a file."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import click

from analysis.report.words.numbers import count_of
from base.files import write_whole
from ssb.tiny.entry import PACKET
from ssb.tiny.node import CHECKSUM
from testbed.cli.completion import network
from testbed.errors import UserError, as_user_error, exists_already, shown
from testbed.library import scenarios
from testbed.scenario import reader
from topologies import library
from topologies.conf import conf_text, read_conf
from topologies.graphs import is_graphml, read_graphml, to_networkx
from topologies.model import Topology, TopologyError
from topologies.routing import path_delay_ns, routes


@click.command()
@click.argument("source", metavar="NETWORK", shell_complete=network)
@click.option(
    "--out", type=click.Path(path_type=Path), help="File to write: GraphML (.graphml), or Mini-NDN's (.conf)."
)
def topology(source: str, out: Path | None) -> None:
    """Say what NETWORK is like; with --out, write it to a file.

    NETWORK is a network of the library (`feednet list`), a Mini-NDN or GraphML file, or a scenario.
    """
    if out is not None and out.exists():
        raise exists_already(out)
    with as_user_error(TopologyError):
        found = _find(source)
        text = None if out is None else _text(found, out)
    for line in summary(found):
        click.echo(line)
    if out is not None and text is not None:
        write_whole(out, text)
        click.echo(f"written   {out}")


def _find(source: str) -> Topology:
    if Path(source).is_file() and not source.endswith(".toml"):
        return read_graphml(source) if is_graphml(source) else read_conf(source)
    if source in library.networks():
        return library.build(source)
    try:
        return reader.load(source).network
    except UserError as error:
        if source.endswith(".toml") or source in scenarios():
            raise
        known = ", ".join(library.networks())
        raise UserError(
            f"{shown(source)}: neither a file, nor a scenario, nor in the library; there are {known}"
        ) from error


def _text(found: Topology, out: Path) -> str:
    if is_graphml(str(out)):
        from networkx import generate_graphml

        return "\n".join(generate_graphml(to_networkx(found))) + "\n"
    if out.suffix == ".conf":
        return conf_text(found)
    raise UserError(f"--out {shown(str(out))}: its name must end in .conf or .graphml")


def summary(found: Topology) -> Iterator[str]:
    """Summarise a network: nodes, links, degrees, delays, longest paths."""
    degrees = Counter(end.node for end in found.interfaces)
    media = f", {len(found.media)} media" if found.media else ""
    yield f"network   {count_of(len(found.nodes), 'node')}, {count_of(len(found.links), 'link')}{media}"
    leaves = sum(degrees[node] == 1 for node in found.nodes)
    least, most = min(degrees[node] for node in found.nodes), max(degrees[node] for node in found.nodes)
    yield f"degree    {least} to {most}, {leaves} {'leaf' if leaves == 1 else 'leaves'}"
    if found.links:
        delays = sorted(link.delay_ms for link in found.links)
        yield f"delay     {delays[0]:g} to {delays[-1]:g} ms a link, median {delays[len(delays) // 2]:g} ms"
    for medium in found.media:
        if medium.radio is not None:
            entry = PACKET + CHECKSUM
            airtime = f"{medium.radio.airtime_ns(entry) / 1e6:.1f} ms for {entry} bytes, an entry of tinySSB"
            yield f"cell      {medium.name}: {medium.radio.describe()}; {airtime}"
    apart = [node for node in found.nodes[1:] if node not in routes(found, found.nodes[0])]
    if apart:
        yield f"apart     no path joins {found.nodes[0]} and {len(apart)} others, such as {apart[0]}"
        return
    if len(found.nodes) in range(2, _MOST_ENDS + 1):
        delay, a, b = max((path_delay_ns(found, a, b), a, b) for a, b in combinations(found.nodes, 2))
        yield f"far       {a} and {b}: {delay / 1e6:g} ms apart, one way"
    if found.links and not found.media:
        yield f"diameter  {count_of(_diameter(found), 'link')}"


def _diameter(found: Topology) -> int:
    """Return the hop count of the longest shortest path in a connected network."""
    from networkx import Graph, diameter

    return int(diameter(Graph([(link.a, link.b) for link in found.links]), usebounds=True))


_MOST_ENDS = 100
"""Maximum number of nodes for computing all distances."""
