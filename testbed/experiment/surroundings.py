"""Where programs that are not ours run in a run over Mininet: a node's namespace, HOME and environment."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ssb.peer.peer import PORT
from testbed.experiment.local_faces import FORWARDER

_DIRECTORIES = (".ndn", ".ssb")


class Surroundings(NamedTuple):
    """What a program on a node finds.

    Attributes:
        netns: path of the network namespace, in the run's box.
        home: its HOME, and
        environment: what else there is besides what its starter has: how NDN's programs find the forwarder.
    """

    netns: str
    home: str
    environment: Mapping[str, str]


def surroundings(home: Path, node: str, netns: str, address: str) -> Surroundings:
    """Return the surroundings of programs on a node, and fill its home with what tells them where to connect.

    ndn-cxx and python-ndn read NDN_CLIENT_TRANSPORT, or ~/.ndn/client.conf; Scuttlebutt's programs read
    ~/.ssb/config. Its key chain has an identity, /feednet/NODE: programs by python-ndn sign with a default one,
    and do not make it.
    """
    transport = f"unix://{home / FORWARDER}"
    for name in _DIRECTORIES:
        (home / name).mkdir(parents=True, exist_ok=True)
    said = {
        ".ndn/client.conf": f"transport={transport}\n",
        ".ssb/config": json.dumps({"host": address, "port": PORT}) + "\n",
    }
    for file, text in said.items():
        if not (home / file).exists():
            (home / file).write_text(text, encoding="utf-8")
    _make_identity(home / ".ndn", node)
    environment = {"HOME": str(home), "NDN_CLIENT_TRANSPORT": transport, "FEEDNET_NODE": node}
    return Surroundings(netns, str(home), environment)


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
