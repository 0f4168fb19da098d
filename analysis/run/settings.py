"""Settings of a run as one level of keys: analysis.run.keys has their names."""

import json
from typing import Any

from analysis.errors import AnalysisError
from analysis.run.keys import LOSS, NET, VERSION
from analysis.run.manifest import Manifest, Run

_NETWORKS = {"emulated": "emulator", "mininet": "Mininet"}


def flattened(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a tree of settings as one level: {"a": {"b": 1}} as {"a.b": 1}."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def settings_of(run: Run) -> dict[str, Any]:
    """Return a run's settings without the seed: the network, the version, the layerings' parameters, and the
    rest of its scenario.json, or the loss of its links if it has none.
    """
    manifest = run.manifest
    settings = {
        NET: network_of(manifest),
        VERSION: version_of(manifest),
    }
    parameters = flattened({"parameters": manifest.parameters})
    try:
        scenario = json.loads((run.directory / "scenario.json").read_bytes())
    except FileNotFoundError:
        return settings | {LOSS: loss_of(run)} | parameters
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{run.directory / 'scenario.json'}: {error}") from None
    elsewhere = ("name", "title", "group", "about", "question", "seed", "layerings", "parameters")
    return settings | flattened({k: v for k, v in scenario.items() if k not in elsewhere}) | parameters


def version_of(manifest: Manifest) -> str:
    """Return the feednet version of a run, and its commit if known."""
    return " ".join(filter(None, (manifest.feednet, manifest.commit)))


def network_of(manifest: Manifest) -> str:
    """Return the network of a run: "emulator", "Mininet (netem)", "Mininet (relay, dilation 8)"."""
    network = _NETWORKS.get(manifest.net, manifest.net)
    how = [manifest.impairment] if manifest.impairment not in ("", "emulated") else []
    how += [f"dilation {manifest.dilation}"] if manifest.dilation > 1 else []
    return f"{network} ({', '.join(how)})" if how else network


def loss_of(run: Run) -> float:
    """Return the loss of a run's worst link, %."""
    return max((link.loss_percent for _, _, link in run.manifest.topology.neighbours), default=0.0)
