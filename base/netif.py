"""The network interfaces of this machine, as faces need them (Linux: netdevice(7))."""

import fcntl
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

_SIOCGIFFLAGS = 0x8913
_SIOCGIFADDR = 0x8915
_SIOCGIFMTU = 0x8921
_SIOCGIFHWADDR = 0x8927
_IFF_UP = 0x1
_IFF_LOOPBACK = 0x8
_IFF_MULTICAST = 0x1000
_ARPHRD_ETHER = 1
_LINK_LOCAL = "20"  # scope, in /proc/net/if_inet6


@dataclass(frozen=True)
class Interface:
    """A network interface that is up.

    Attributes:
        name, index, mtu: of the system.
        is_loopback, is_multicast: its flags.
        mac: Ethernet address, 6 bytes; None if it has none.
        ipv4: its address; None if it has none.
        ipv6: its link-local address, without scope; None if it has none.
    """

    name: str
    index: int
    mtu: int
    is_loopback: bool
    is_multicast: bool
    mac: bytes | None
    ipv4: str | None
    ipv6: str | None


def interfaces(patterns: tuple[str, ...] = ("*",)) -> list[Interface]:
    """Return the interfaces that are up and whose names match one of the patterns."""
    link_local = _link_local_addresses()
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for index, name in socket.if_nameindex():
            if not any(fnmatch(name, pattern) for pattern in patterns):
                continue
            with suppress(OSError):  # it may disappear meanwhile
                interface = _query(sock, index, name, link_local.get(name))
                if interface is not None:
                    found.append(interface)
    return found


def _query(sock: socket.socket, index: int, name: str, ipv6: str | None) -> Interface | None:
    (flags,) = struct.unpack_from("@H", _ioctl(sock, _SIOCGIFFLAGS, name), 16)
    if not flags & _IFF_UP:
        return None
    (mtu,) = struct.unpack_from("@i", _ioctl(sock, _SIOCGIFMTU, name), 16)
    hardware = _ioctl(sock, _SIOCGIFHWADDR, name)
    (kind,) = struct.unpack_from("@H", hardware, 16)
    mac = hardware[18:24] if kind == _ARPHRD_ETHER and any(hardware[18:24]) else None
    ipv4 = None
    with suppress(OSError):
        ipv4 = socket.inet_ntoa(_ioctl(sock, _SIOCGIFADDR, name)[20:24])
    is_loopback, is_multicast = bool(flags & _IFF_LOOPBACK), bool(flags & _IFF_MULTICAST)
    return Interface(name, index, mtu, is_loopback, is_multicast, mac, ipv4, ipv6)


def _ioctl(sock: socket.socket, question: int, name: str) -> bytes:
    return fcntl.ioctl(sock, question, struct.pack("@16s24x", name.encode()))


def _link_local_addresses() -> dict[str, str]:
    try:
        lines = Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        address, _, _, scope, _, name = line.split()
        if scope == _LINK_LOCAL:
            found[name] = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(address))
    return found
