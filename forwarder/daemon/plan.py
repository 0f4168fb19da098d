"""A configuration with its references resolved: addresses of neighbours, keys, strategies.

A start and a reload both begin here. All that a configuration can get wrong raises ConfigError before
anything is changed: a file that is refused changes nothing.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from forwarder import strategies
from forwarder.daemon.config import Config, ConfigError, FaceSection, StrategySection
from forwarder.daemon.neighbours import Ends
from forwarder.faces.uri import canonize
from forwarder.management.authorisation import Authorisation
from forwarder.strategies.strategy import Strategy
from forwarder.wire.name import from_uri

RELOADED = frozenset(
    {
        "log_level",
        "log_file",
        "authorizations",
        "regions",
        "faces",
        "strategies",
        "multicast.routes",
        "multicast.cost",
        "ethernet.routes",
        "ethernet.cost",
        "content_store.capacity",
        "content_store.unsolicited",
    }
)
"""The keys that a reload applies. All others take effect when the forwarder is started again."""


class Plan(NamedTuple):
    """A configuration that can be applied.

    Attributes:
        config: as it was read.
        neighbours: those of [[faces]], by both ends of the face.
        authorisation: the rules, with their certificates.
        strategies: class and parameters of [[strategies]], with their text, by prefix.
    """

    config: Config
    neighbours: dict[Ends, FaceSection]
    authorisation: Authorisation
    strategies: dict[bytes, tuple[str, type[Strategy], dict[str, str]]]


def prepare(config: Config) -> Plan:
    """Resolve the references of a configuration; raise ConfigError. It may block for addresses of hosts."""
    path = config.authorizations
    try:
        return Plan(
            config,
            _neighbours(config.faces),
            Authorisation() if path is None else Authorisation.load(Path(path)),
            _choices(config.strategies),
        )
    except (OSError, ValueError) as error:
        raise ConfigError(str(error)) from error


def _neighbours(sections: Iterable[FaceSection]) -> dict[Ends, FaceSection]:
    """Return one section for each face: if a file names a face twice, it has the routes of both."""
    found: dict[Ends, FaceSection] = {}
    for section in sections:
        ends = Ends(str(canonize(section.uri)), section.interface)
        first = found.setdefault(ends, section)
        if first is not section:
            found[ends] = first.model_copy(update={"routes": (*first.routes, *section.routes)})
    return found


def _choices(sections: Iterable[StrategySection]) -> dict[bytes, tuple[str, type[Strategy], dict[str, str]]]:
    found = {}
    for section in sections:
        try:
            found[from_uri(section.prefix)] = (section.strategy, *strategies.parse(section.strategy))
        except ValueError as error:
            raise ValueError(f"strategies: {section.prefix}: {error}") from error
    return found


def load_strategies(config: Config) -> None:
    """Import the files that add strategies. Raises ConfigError."""
    for path in config.strategy_files:
        try:
            strategies.load(Path(path))
        except ValueError as error:
            raise ConfigError(str(error)) from error


def waiting(running: Config, wanted: Config) -> list[str]:
    """Return the keys that differ and that no reload applies, such as "udp.port"."""
    old, new = _flat(running), _flat(wanted)
    return [key for key in new if key not in RELOADED and old[key] != new[key]]


def _flat(config: Config) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in config:
        if isinstance(value, BaseModel):
            values |= {f"{key}.{inner}": each for inner, each in value}
        else:
            values[key] = value
    return values
