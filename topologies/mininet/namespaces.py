"""Network namespaces from within this process: entering and configuring them.

A thread's namespace applies to its sockets, ioctls, /proc/sys/net and child processes. So a network
of hundreds of namespaces is set up here with one `ip -batch` each and no other processes.
"""

import array
import contextlib
import fcntl
import re
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

_SIOCETHTOOL = 0x8946
_ETHTOOL_GLINK = 0x0A
_ETHTOOL_STXCSUM = 0x17


def ip(commands: Sequence[str]) -> None:
    """Run `ip` commands, given without the word `ip`, in this thread's namespace.

    Raises OSError with the failed command and the reason.
    """
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(commands) + "\n", capture_output=True, text=True, check=False
    )
    if done.returncode:
        why = " ".join(done.stderr.split())
        line = re.search(r"Command failed -:(\d+)", why)
        raise OSError(f"ip {commands[int(line[1]) - 1] if line else '-batch'}: {why}")


def disable_ipv6() -> None:
    """Disable IPv6's own packets in this thread's namespace, for present and future interfaces."""
    for scope in ("all", "default"):
        # A kernel without IPv6 has no such file, and nothing to disable.
        with contextlib.suppress(FileNotFoundError):
            Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("1", encoding="ascii")


def set_up_ipv4() -> None:
    """Enable IPv4 forwarding between all interfaces of this thread's namespace.

    TCP is set as in the emulator: NewReno, without timestamps, selective acknowledgements, RACK and tail-loss
    probes.
    """
    for setting, value in (
        ("ip_forward", "1"),
        ("ip_default_ttl", "255"),  # paths are as long as the topology wants
        ("conf/all/rp_filter", "0"),
        ("conf/default/rp_filter", "0"),
        ("fib_multipath_hash_policy", "1"),  # a flow goes one way, by its addresses and ports
        ("tcp_congestion_control", "reno"),
        ("tcp_timestamps", "0"),
        ("tcp_sack", "0"),
        ("tcp_recovery", "0"),
        ("tcp_early_retrans", "0"),
        ("igmp_link_local_mcast_reports", "0"),  # or joining a group would send captured frames
    ):
        Path(f"/proc/sys/net/ipv4/{setting}").write_text(value, encoding="ascii")


def disable_transmit_checksum_offload(interface: str) -> None:
    """Have the kernel compute checksums before a frame leaves through `interface`.

    A veth leaves them empty otherwise, and frames through a packet socket arrive with wrong ones. Raises
    OSError.
    """
    _ethtool(interface, _ETHTOOL_STXCSUM, 0)


def refresh_carrier(interface: str) -> None:
    """Make the kernel detect the carrier of `interface`; raise OSError if its peer is not up.

    The end of a veth pair that was brought up first drops frames until the kernel's link watch detects its
    carrier, up to a second later. A query of the carrier triggers that at once.
    """
    if not _ethtool(interface, _ETHTOOL_GLINK, 0):
        raise OSError(f"interface {interface} has no carrier")


def _ethtool(interface: str, operation: int, argument: int) -> int:
    """An ethtool operation on one value (struct ethtool_value); returns the value."""
    value = array.array("I", [operation, argument])
    address, _ = value.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCETHTOOL, struct.pack("@16sP", interface.encode(), address))
    return value[1]
