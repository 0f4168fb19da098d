"""Environment of third-party programs in a run over Mininet: a node's namespace, HOME and variables."""

import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from forwarder.daemon.datasets import NEIGHBOURS
from testbed.hosts.local_faces import FORWARDER
from testbed.hosts.processes import FIRST_PROCESS
from topologies.model import Topology


class ProgramEnvironment(NamedTuple):
    """Environment of a program on a node.

    Attributes:
        netns: path of the network namespace, in the run's box.
        home: its HOME, and
        environment: additional variables: how NDN's programs find the forwarder.
    """

    netns: str
    home: str
    environment: Mapping[str, str]

    def all_environment(self) -> dict[str, str]:
        """Return the environment of a program that this process starts there. It finds feednet, even if this
        process was called by its path.
        """
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), sysconfig.get_path("scripts")])
        return {**os.environ, "PATH": path, **self.environment}


def program_environment(network: Topology, node: str, netns: str, home: Path) -> ProgramEnvironment:
    """Return the environment of programs on a node, and write their client configuration into its home.

    ndn-cxx and python-ndn read NDN_CLIENT_TRANSPORT, or ~/.ndn/client.conf; Scuttlebutt's programs read
    ~/.ssb, the directory of the node's stock peer if there is one. The key chain has an identity,
    /feednet/NODE: programs by python-ndn sign with a default one, and do not make it.
    """
    transport = f"unix://{home / FORWARDER}"
    peer, ndn = home / FIRST_PROCESS, home / ".ndn"
    if peer.is_dir() and not (home / ".ssb").is_symlink():
        (home / ".ssb").symlink_to(peer)
    ndn.mkdir(parents=True, exist_ok=True)
    (ndn / "client.conf").write_text(f"transport={transport}\n", encoding="utf-8")
    _make_identity(ndn, node)
    neighbours = {end.peer_ipv4: end.peer for end in network.ends_of(node)}
    environment = {
        "HOME": str(home),
        "NDN_CLIENT_TRANSPORT": transport,
        "FEEDNET_NODE": node,
        NEIGHBOURS: " ".join(f"{address}={name}" for address, name in neighbours.items()),
    }
    return ProgramEnvironment(netns, str(home), environment)


def _make_identity(directory: Path, node: str) -> None:
    from ndn.encoding import Name
    from ndn.security import KeychainSqlite3, TpmFile

    path = directory / "pib.db"
    if not path.exists():
        keys = directory / "ndnsec-key-file"
        KeychainSqlite3.initialize(str(path), "tpm-file", str(keys))
        chain = KeychainSqlite3(str(path), TpmFile(str(keys)))
        chain.touch_identity(Name.from_str(f"/feednet/{node}"))
        chain.shutdown()
