"""The configuration of `feednet forward`: a TOML file, validated before anything is opened."""

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from forwarder.faces.ethernet import GROUP
from forwarder.faces.multicast import GROUP_IPV4, GROUP_IPV6, GROUP_PORT
from forwarder.faces.uri import PORT, canonize, parse
from forwarder.links.link import MIN_FRAME
from forwarder.toml_file import first_problem, read_toml
from forwarder.wire.name import from_uri

METRICS_PORT = 9636
"""Default address of the HTTP server for counters."""

SAMPLE = Path(__file__).with_name("sample.toml")
"""A configuration with everything in it commented out."""

UNIT = Path(__file__).with_name("feednet.service")
"""A unit file for systemd, with {feednet} in place of the command."""


class ConfigError(ValueError):
    """An error that the user can correct; the message is one line that names it, its place and the remedy."""


def _name(text: str) -> str:
    from_uri(text)
    return text


def _address(text: str) -> str:
    return str(ipaddress.ip_address(text))


def _group(text: str) -> str:
    address = ipaddress.ip_address(text)
    if not address.is_multicast:
        raise ValueError(f"{text} is not a multicast address")
    return str(address)


def _mac_group(text: str) -> str:
    uri = canonize(f"ether://[{text}]")
    if not uri.is_multicast:
        raise ValueError(f"{text} is not a multicast address")
    return uri.host


def _face_uri(text: str) -> str:
    parse(text)
    return text


Prefix = Annotated[str, AfterValidator(_name)]
Address = Annotated[str, AfterValidator(_address)]
LogLevel = Literal["debug", "info", "warning", "error"]
MaxFaces = Annotated[int, Field(ge=1, le=65536)]


class Section(BaseModel):
    """A TOML table: unknown keys are errors, and values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class UnixSection(Section):
    """The Unix socket."""

    listen: bool = True
    path: str | None = Field(default=None, min_length=1, max_length=107)
    max_faces: MaxFaces = 1024


class IpSection(Section):
    """TCP: a channel at each address."""

    listen: bool = True
    addresses: tuple[Address, ...] = ("0.0.0.0", "::")
    port: int = Field(default=PORT, ge=0, le=65535)
    max_faces: MaxFaces = 1024


class UdpSection(IpSection):
    """UDP: a channel at each address, one for each version of IP at most."""

    mtu: int = Field(default=8800, ge=MIN_FRAME, le=65467)
    idle_s: float = Field(default=600.0, ge=0, le=1e9, allow_inf_nan=False)
    segmentation: bool = False


class MulticastSection(Section):
    """UDP multicast: a face on each interface that matches, for each version of IP that it has."""

    interfaces: tuple[str, ...] = ()
    group_ipv4: Annotated[str, AfterValidator(_group)] = GROUP_IPV4
    group_ipv6: Annotated[str, AfterValidator(_group)] = GROUP_IPV6
    port: int = Field(default=GROUP_PORT, ge=1, le=65535)
    mtu: int = Field(default=8800, ge=MIN_FRAME, le=65467)
    routes: tuple[Prefix, ...] = ()
    cost: int = Field(default=0, ge=0)


class EthernetSection(Section):
    """Ethernet: neighbours and a group on each interface that matches."""

    interfaces: tuple[str, ...] = ()
    listen: bool = True
    multicast: bool = True
    group: Annotated[str, AfterValidator(_mac_group)] = GROUP
    max_faces: MaxFaces = 1024
    idle_s: float = Field(default=600.0, ge=0, le=1e9, allow_inf_nan=False)
    routes: tuple[Prefix, ...] = ()
    cost: int = Field(default=0, ge=0)


class ContentStoreSection(Section):
    """The content store."""

    capacity: int = Field(default=65536, ge=0)
    policy: Literal["lru", "priority_fifo"] = "lru"
    unsolicited: Literal["drop-all", "admit-local", "admit-network", "admit-all"] = "drop-all"


class FaceSection(Section):
    """A neighbour, and the prefixes routed to it."""

    uri: Annotated[str, AfterValidator(_face_uri)]
    interface: str | None = Field(default=None, min_length=1, max_length=15)
    persistency: Literal["persistent", "permanent"] = "permanent"
    mtu: int | None = Field(default=None, ge=MIN_FRAME, le=65467)
    reliable: bool = False
    routes: tuple[Prefix, ...] = ()
    cost: int = Field(default=0, ge=0)


class StrategySection(Section):
    """The strategy for a prefix."""

    prefix: Prefix
    strategy: str


class MetricsSection(Section):
    """Counters over HTTP."""

    listen: bool = False
    address: Address = "127.0.0.1"
    port: int = Field(default=METRICS_PORT, ge=0, le=65535)


_STRATEGIES = (
    StrategySection(prefix="/localhost", strategy="multicast"),
    StrategySection(prefix="/localhost/nfd", strategy="best-route"),
    StrategySection(prefix="/ndn/broadcast", strategy="multicast"),
)


class Config(Section):
    """A configuration; sample.toml documents its keys."""

    log_level: LogLevel = "info"
    log_file: str | None = Field(default=None, min_length=1)
    congestion_marking: bool = True
    controlled_push: bool = True
    authorizations: str | None = None
    strategy_files: tuple[str, ...] = ()
    regions: tuple[Prefix, ...] = ()
    unix: UnixSection = UnixSection()
    tcp: IpSection = IpSection()
    udp: UdpSection = UdpSection()
    multicast: MulticastSection = MulticastSection()
    ethernet: EthernetSection = EthernetSection()
    metrics: MetricsSection = MetricsSection()
    content_store: ContentStoreSection = ContentStoreSection()
    faces: tuple[FaceSection, ...] = ()
    strategies: tuple[StrategySection, ...] = _STRATEGIES


def load(path: Path | None) -> Config:
    """Read a configuration, or the defaults without one; raise ConfigError.

    Paths in it are relative to the file.
    """
    if path is None:
        return Config()
    try:
        config = Config.model_validate(read_toml(path))
    except ValidationError as error:  # which is a ValueError, too
        raise ConfigError(f"{path}: {first_problem(error)}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return config.model_copy(
        update={
            "unix": config.unix.model_copy(update={"path": _beside(path, config.unix.path)}),
            "authorizations": _beside(path, config.authorizations),
            "log_file": _beside(path, config.log_file),
            "strategy_files": tuple(str(path.parent / each) for each in config.strategy_files),
        }
    )


def _beside(path: Path, inner: str | None) -> str | None:
    return None if inner is None else str(path.parent / inner)
