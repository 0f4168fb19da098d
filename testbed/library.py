"""The scenarios and studies that come with feednet: their files, unread."""

from pathlib import Path

from forwarder.toml_file import read_toml

_HERE = Path(__file__).parent

OTHER = "others"
"""The group of scenarios that name none."""


def scenarios() -> dict[str, Path]:
    """Return the scenarios by name."""
    return _files("scenario")


def studies() -> dict[str, Path]:
    """Return the studies by name."""
    return _files("study")


def takes() -> dict[str, dict[str, float]]:
    """Return for each scenario what testbed.experiment.outlook.takes() says of it."""
    found: dict[str, dict[str, float]] = read_toml(_HERE / "experiment" / "outlook.toml")["takes"]
    return found


def _files(room: str) -> dict[str, Path]:
    return {path.stem: path for path in sorted((_HERE / room / "files").glob("*.toml"))}
