"""Reads scenario files, applies options, and checks the result before a run writes anything."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from forwarder.toml_file import parse_toml, problem_of
from testbed.errors import UserError, shown, suggestion
from testbed.library import scenarios
from testbed.scenario.model import Scenario
from testbed.scenario.overrides import (
    SHORT_KEYS,
    InvalidScenario,
    Key,
    Override,
    ScenarioOptions,
    apply,
    override_of,
)
from testbed.scenario.rules import complete
from testbed.scenario.sections import table_keys, tables_in
from topologies.model import TopologyError

STARTING_FILE = Path(__file__).with_name("starting_file.toml")
"""A scenario with a comment at every line, for `feednet new scenario`."""

_NO_OPTIONS = ScenarioOptions()


def first_comment(text: bytes) -> str:
    """Return the comment at the beginning of a TOML file, as one paragraph; "" if there is none."""
    lines = takewhile(lambda line: line.startswith("#"), text.decode(errors="replace").splitlines())
    return " ".join(line.removeprefix("#").strip() for line in lines).strip()


def read(name_or_path: str) -> tuple[dict[str, Any], Path]:
    """Read a scenario's file by name or path; return its table, with resolved paths, and its location. Raises
    UserError.
    """
    built_in = scenarios()
    path = built_in.get(name_or_path, Path(name_or_path))
    try:
        text = path.read_bytes()
    except (OSError, ValueError) as error:
        raise UserError(
            f"{shown(name_or_path)}: no such scenario; {suggestion(shown(name_or_path), built_in)};"
            " or give a .toml file's path"
        ) from error
    try:
        table = {"name": path.stem, "about": first_comment(text), **parse_toml(text)}
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    _resolve_files(table, path.parent)
    return table, path


def load(name_or_path: str, options: ScenarioOptions = _NO_OPTIONS, **fields: Any) -> Scenario:
    """Read and check a scenario by name or path; raise UserError.

    `fields` override fields of `options`, ScenarioOptions.
    """
    return check(*read(name_or_path), replace(options, **fields))


def check(said: Mapping[str, Any], path: Path, options: ScenarioOptions) -> Scenario:
    """Return the checked scenario of a table from read(); raise UserError.

    `path` is named in errors.
    """
    wanted = options.overrides()
    table = deepcopy({**said})
    if options.topology_file is not None:
        table["topology"] = {}
    if options.publisher is not None:
        table.pop("publishers", None)
    wanted = [*_loss_of_users(table, options), *wanted]
    homeless = apply(table, wanted)
    if options.strategy_files:
        _add_strategy_files(table, options.strategy_files)
    _check_effects(table, wanted)
    following = table.get("subscribers")
    if isinstance(following, str | int):
        del table["subscribers"]
    try:
        scenario = Scenario.model_validate(table)
    except ValidationError as error:
        key, problem = problem_of(error)
        guilty = override_of(wanted, [key])
        if error.errors()[0]["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            problem += f"; {suggestion(key[-1], _known_keys(key, swept=guilty is not None))}"
        raise UserError(f"{guilty.text if guilty else f'{path}: {_place(key)}'}: {problem}") from error
    if homeless:
        keys = _known_keys(homeless[0].path[:1], swept=True)
        raise UserError(f"{homeless[0].text}: unknown key; {suggestion(homeless[0].path[0], keys)}")
    try:
        whole = complete(scenario, following, wanted)
    except TopologyError as error:
        file = scenario.topology.file
        if file is not None and str(error).startswith(f"{file}:"):
            raise UserError(str(error)) from error
        guilty = override_of([each for each in wanted if each.value != file], [("topology",)])
        raise UserError(f"{guilty.text if guilty else path}: {error}") from error
    except InvalidScenario as error:
        guilty = override_of(wanted, error.paths)
        raise UserError(f"{guilty.text if guilty else path}: {error}") from error
    return whole


def _place(key: Key) -> str:
    """Return a key's place as an author counts: "[[events]] number 1: at_ms"."""
    at = next((place for place, part in enumerate(key) if part.isdecimal() and place), None)
    if at is None:
        return ".".join(key)
    inner = ".".join(key[at + 1 :])
    return f"[[{'.'.join(key[:at])}]] number {int(key[at]) + 1}{f': {inner}' if inner else ''}"


def _add_strategy_files(table: dict[str, Any], files: Sequence[str]) -> None:
    if not table.get("strategies"):
        raise UserError(f"--strategy-file {shown(files[0])}: no strategy is chosen; name it with --strategy")
    before = table.get("strategy_files", [])
    if isinstance(before, list):
        table["strategy_files"] = [*before, *files]


def _loss_of_users(table: dict[str, Any], options: ScenarioOptions) -> list[Override]:
    """Return what --loss says of the links of users, which have a table of their own."""
    topology = table.get("topology")
    if options.loss_percent is None or not isinstance(topology, dict) or "users" not in topology:
        return []
    text = f"--loss {shown(options.loss_percent)}"
    return [Override(("topology", "users", "link", "loss_percent"), options.loss_percent, text)]


def _media_lose_their_own(topology: Any) -> bool:
    media = topology.get("media") if isinstance(topology, dict) else None
    found = [medium for medium in media if isinstance(medium, dict)] if isinstance(media, list) else []
    return any({"loss_percent", "losses"} & medium.keys() for medium in found)


def _check_effects(table: dict[str, Any], wanted: Sequence[Override]) -> None:
    """Raise UserError for settings without effect, or with a partial one."""
    topology, workload = table.get("topology"), table.get("workload")
    links = topology.get("links") if isinstance(topology, dict) else None
    own = {key for link in links if isinstance(link, dict) for key in link} if isinstance(links, list) else {}
    for each in wanted:
        if each.path[:2] == ("topology", "link") and each.path[-1] in own:
            raise UserError(f"{each.text}: some of [[topology.links]] have a {each.path[-1]} of their own")
        if each.text.startswith("--loss ") and _media_lose_their_own(topology):
            raise UserError(f"{each.text}: some of [[topology.media]] have losses of their own")
        if isinstance(workload, dict) and "feed" in workload and each.path == ("workload", "items"):
            raise UserError(f"{each.text}: the export {shown(workload['feed'])} is published whole")


def _known_keys(path: Key, *, swept: bool) -> list[str]:
    """Return the keys of the table of an unknown key, with their --sweep names if `swept`."""
    table: type = Scenario
    short = SHORT_KEYS if swept and len(path) == 1 else ()
    for name in path[:-1]:  # a non-field is an index in a list or a node's name
        table = next(tables_in(table_keys(table).get(name)), table)
    return [*short, *(key for key in table_keys(table) if key not in short)]


def _resolve_files(table: dict[str, Any], directory: Path) -> None:
    """Resolve the paths in a scenario file relative to that file."""
    for section, key in (("topology", "file"), ("workload", "feed"), ("mobility", "trace")):
        inner = table.get(section)
        if isinstance(inner, dict) and isinstance(inner.get(key), str):
            inner[key] = str(directory / inner[key])
    files = table.get("strategy_files")
    if isinstance(files, list):
        table["strategy_files"] = [str(directory / file) if isinstance(file, str) else file for file in files]
