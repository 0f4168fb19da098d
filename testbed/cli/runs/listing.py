"""`feednet list`: what there is to run. It imports neither layerings nor the model of scenarios."""

import json
from collections import defaultdict
from collections.abc import Mapping

import click

from forwarder.strategies import STRATEGIES
from forwarder.toml_file import read_toml
from testbed.cli.console import about, console, durations
from testbed.layerings import registry
from testbed.library import OTHER, scenarios, studies, takes
from topologies import generate as generators
from topologies.library import networks

_LONG_S = 300.0
_PROTOCOLS = {
    "ndn": "over NDN",
    "ssb": "Secure Scuttlebutt",
    "mqtt": "MQTT",
    "multicast": "IP multicast",
    "moq": "Media over QUIC",
    "tiny": "tinySSB",
}


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_(as_json: bool) -> None:
    """List scenarios, studies, layerings, topologies and forwarding strategies."""
    known = {name: read_toml(path) for name, path in scenarios().items()}
    of_studies = {name: str(read_toml(path)["title"]) for name, path in studies().items()}
    layerings = registry.titles()
    if as_json:
        names = {
            "scenarios": {name: said["title"] for name, said in known.items()},
            "groups": {name: said.get("group", OTHER) for name, said in known.items()},
            "takes": takes(),
            "studies": of_studies,
            "layerings": {name: title for of in layerings.values() for name, title in of.items()},
            "topologies": [name for name, _, _ in generators.rows()],
            "networks": {name: network.title for name, network in networks().items()},
            "strategies": sorted(STRATEGIES),
        }
        click.echo(json.dumps(names))
        return
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    costs = takes()
    for name, said in known.items():
        is_long = max(costs[name].values()) >= _LONG_S
        cost = f" ({durations(costs[name])})" if is_long else ""
        groups[said.get("group", OTHER)][name] = said["title"] + cost
    for group in sorted(groups, key=lambda group: (group == OTHER, group)):
        _print_rows(f"scenarios: {group}", groups[group])
    console.print("  (feednet describe NAME: what happens in it;", end=" ")
    console.print(f"feednet run NAME: less than {about(_LONG_S)} where nothing is said)")
    _print_rows("studies (feednet study NAME)", of_studies)
    for protocol, of in layerings.items():
        _print_rows(f"layerings: {_PROTOCOLS.get(protocol, protocol)}", of)
    console.print("  (feednet describe NAME: its parameters)")
    made = {name: f"{says.rstrip('.')} ({numbers})" for name, numbers, says in generators.rows()}
    _print_rows("topologies: generators", made)
    _print_rows(
        "topologies: real networks, for --topology, as are Mini-NDN and GraphML files",
        {name: network.title for name, network in networks().items()},
    )
    said = {name: (strategy.__doc__ or "").strip().split("\n")[0] for name, strategy in STRATEGIES.items()}
    _print_rows("strategies, or your own with --strategy-file", dict(sorted(said.items())))


def _print_rows(heading: str, rows: Mapping[str, str]) -> None:
    console.print(heading, style="bold")
    width = max(map(len, rows))
    for name, title in rows.items():
        console.print(f"  {name:{width}}  ", end="")
        console.print(title)
