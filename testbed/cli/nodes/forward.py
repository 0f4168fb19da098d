"""`feednet forward`: a forwarder for the applications of this machine and its neighbours."""

import asyncio
import sys
from pathlib import Path

import click

from testbed.cli.usage import exclude
from testbed.errors import as_user_error


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), help="Configuration; see --sample-config.")
@click.option("--sample-config", is_flag=True, help="Print a configuration with every key, and end.")
@click.option("--systemd-unit", is_flag=True, help="Print a unit file for systemd, and end.")
def forward(path: Path | None, sample_config: bool, systemd_unit: bool) -> None:
    """Forward NDN packets for applications and neighbours, as NFD does, until interrupted.

    Says on standard output when it is ready, and at which FaceUris; events are logged to standard error, and
    to a file if the configuration names one. SIGHUP reloads the configuration.
    """
    # Lazy, for the other commands: signatures, sockets and management are slow to load.
    from forwarder.daemon.config import SAMPLE, UNIT, ConfigError
    from forwarder.daemon.service import run

    exclude("sample_config", "path", "systemd_unit")
    exclude("systemd_unit", "path")
    if sample_config:
        click.echo(SAMPLE.read_text(encoding="utf-8"), nl=False)
        return
    if systemd_unit:
        click.echo(UNIT.read_text(encoding="utf-8").replace("{feednet}", _command()), nl=False)
        return
    with as_user_error(ConfigError):
        asyncio.run(run(path, lambda uris: click.echo(f"feednet: ready, {' '.join(uris)}")))


def _command() -> str:
    """Return the command for systemd to start this installation (systemd.service(5), "Command lines")."""
    script = Path(sys.executable).with_name("feednet")
    words = [str(script)] if script.exists() else [sys.executable, "-m", "feednet"]
    return " ".join(f'"{word}"' if " " in word else word for word in words).replace("%", "%%")
