"""UDP multicast and Ethernet, between network namespaces."""

import subprocess
from pathlib import Path

import pytest
from processes import drilled

from topologies.mininet import sandbox

HERE = Path(__file__).parent


def why_not() -> str | None:
    veth = ["ip", "link", "add", "name", "probe0", "type", "veth", "peer", "name", "probe1"]
    try:
        done = subprocess.run(sandbox.command(veth), capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return done.stderr.strip() or f"exit status {done.returncode}" if done.returncode else None


@pytest.mark.mininet
@pytest.mark.skipif(why_not() is not None, reason=f"no veth in namespaces here: {why_not()}")
def test_groups_and_ethernet_neighbours(tmp_path: Path) -> None:
    assert drilled(HERE / "group_drill.py", tmp_path) == [
        "udp4 group",
        "udp6 group",
        "ethernet group, in fragments",
        "ethernet neighbour",
        "no Nack to a group",
    ]
