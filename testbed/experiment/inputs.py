"""The input files of a scenario: a run keeps copies, so that its directory suffices to repeat it."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from testbed.errors import UserError
from testbed.experiment.files import FEED, INPUTS, SCENARIO
from testbed.scenario.model import Scenario

_FILES = (("topology", "file"), ("mobility", "trace"))


def _places(table: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the places of file names in a scenario's table: a table or a list, and the key or the index."""
    for section, key in _FILES:
        inner = table.get(section)
        if isinstance(inner, dict) and inner.get(key):
            yield inner, key
    files = table.get("strategy_files") or []
    yield from ((files, index) for index in range(len(files)))


def own_name(file: str) -> str:
    """Return a file's name as the user wrote it, also for a run's copy."""
    path = Path(file)
    copied = re.fullmatch(r"[0-9]+-(.+)", path.name) if path.parent.name == INPUTS else None
    return copied[1] if copied else path.name


def copy_inputs(table: dict[str, Any], directory: Path) -> None:
    """Copy the files named by a scenario's table into a run's directory; a feed is there anyway.

    Raises OSError.
    """
    for number, (inner, key) in enumerate(_places(table), start=1):
        (directory / INPUTS).mkdir(exist_ok=True)
        shutil.copyfile(inner[key], directory / INPUTS / f"{number}-{own_name(inner[key])}")


def scenario_of(run: Path) -> Scenario:
    """Return the scenario of a run, with the run's own files. Raises UserError."""
    try:
        table = json.loads((run / SCENARIO).read_bytes())
        for number, (inner, key) in enumerate(_places(table), start=1):
            kept = run / INPUTS / f"{number}-{own_name(inner[key])}"
            if kept.exists():
                inner[key] = str(kept.resolve())
        if table["workload"].get("feed"):
            table["workload"]["feed"] = str((run / FEED).resolve())
        return Scenario.model_validate(table)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = str(error).splitlines()[0]
        raise UserError(f"{run / SCENARIO}: not what a run of this version writes: {why}") from error


def without_files(table: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario's table without file paths, which differ between runs."""
    table = deepcopy(table)
    for inner, key in [*_places(table)]:
        inner[key] = ""
    if table["workload"].get("feed"):
        table["workload"]["feed"] = ""
    return table


def fingerprint(scenario: Scenario) -> str:
    """Return the SHA-256, in hexadecimal, of what a scenario says and of the files that it names, wherever
    they are. Raises OSError.
    """
    table = scenario.model_dump(mode="json", by_alias=True)
    files = [inner[key] for inner, key in _places(table)]
    if table["workload"].get("feed"):
        files.append(table["workload"]["feed"])
    digest = hashlib.sha256(json.dumps(without_files(table), sort_keys=True).encode())
    for file in files:
        digest.update(hashlib.sha256(Path(file).read_bytes()).digest())
    return digest.hexdigest()
