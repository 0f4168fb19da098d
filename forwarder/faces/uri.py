"""FaceUris: what is at the two ends of a face, as text (NFD wiki, "FaceUri")."""

import ipaddress
import re
import socket
from typing import NamedTuple

PORT = 6363
"""NDN over UDP and TCP (IANA)."""

_IP = {"udp4": 4, "udp6": 6, "tcp4": 4, "tcp6": 6}
_NAMED = {"udp": "udp", "tcp": "tcp", **{scheme: scheme[:3] for scheme in _IP}}
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_URI = re.compile(r"([a-z][a-z0-9+]*)://(?:\[([^\]/]*)\]|([^/:\[\]]*))(?::([0-9]{1,5}))?(/.*)?", re.DOTALL)
_MAC = re.compile(r"(?:[0-9a-fA-F]{1,2}:){5}[0-9a-fA-F]{1,2}")
_INTERFACE = re.compile(r"[^\s/:\[\]]{1,15}")


class FaceUri(NamedTuple):
    """One FaceUri.

    Attributes:
        scheme: udp4, udp6, tcp4, tcp6, unix, fd, dev, ether, internal or null; udp and tcp where the version
            of IP is left open.
        host: IP address (of IPv6, with %interface if it is link-local), MAC address, name of a host or
            interface, or number of a file descriptor.
        port: 0 to 65535; None if there is none.
        path: of a Unix socket.
    """

    scheme: str
    host: str = ""
    port: int | None = None
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if self.scheme == "ether" or ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"

    @property
    def is_canonical(self) -> bool:
        """Whether nothing is left open, and nothing could be written in another way."""
        match self.scheme:
            case "udp4" | "udp6" | "tcp4" | "tcp6":
                is_address = _canonical_address(self.host, _IP[self.scheme]) == self.host
                return is_address and bool(self.port) and not self.path
            case "ether":
                return self.host == _canonical_mac(self.host) and self.port is None and not self.path
            case "dev":
                return bool(_INTERFACE.fullmatch(self.host)) and self.port is None and not self.path
            case "fd":
                return self.host.isdecimal() and self.port is None and not self.path
            case "unix":
                return bool(self.path) and not self.host and self.port is None
            case "internal" | "null":
                return not self.host and self.port is None and not self.path
        return False

    @property
    def is_multicast(self) -> bool:
        """Whether it names a group; of a canonical URI."""
        if self.scheme == "ether":
            return bool(int(self.host[:2], 16) & 1)
        return self.scheme in _IP and ipaddress.ip_address(self.host).is_multicast

    @property
    def is_loopback(self) -> bool:
        """Whether it is an IP address of this machine alone; of a canonical URI."""
        return self.scheme in _IP and ipaddress.ip_address(self.host).is_loopback

    @property
    def family(self) -> socket.AddressFamily:
        """The address family of udp4, udp6, tcp4 and tcp6."""
        return _FAMILIES[_IP[self.scheme]]

    @property
    def address(self) -> tuple[str, int]:
        """The socket address of a canonical udp4, udp6, tcp4 or tcp6 URI."""
        return self.host, self.port or 0


def parse(text: str) -> FaceUri:
    """Read a FaceUri; raise ValueError, with a line for the user, if it is none."""
    match = _URI.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a FaceUri, such as udp4://192.0.2.1:6363")
    scheme, bracketed, plain, port, path = match.groups()
    number = None if port is None else int(port)
    if number is not None and number > 65535:
        raise ValueError(f"{text!r}: there is no port {port}")
    host = plain if bracketed is None else bracketed.replace("%25", "%")
    if (bracketed is not None) != (scheme == "ether" or ":" in host):
        raise ValueError(f"{text!r}: brackets are for IPv6 and MAC addresses")
    if path == "/" and scheme != "unix":
        path = ""
    return FaceUri(scheme, host, number, path or "")


def canonize(text: str) -> FaceUri:
    """Read a FaceUri and fill in what it leaves open: the port 6363, and a host's address, by asking for it.

    Raises ValueError, with a line for the user.
    """
    uri = parse(text)
    if uri.scheme in _NAMED and not uri.path:
        kind = _NAMED[uri.scheme]
        family = _FAMILIES.get(_IP.get(uri.scheme, 0), socket.AF_UNSPEC)
        try:
            found = socket.getaddrinfo(uri.host, uri.port or PORT, family, socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ValueError(f"{text}: {error}") from error
        version = 6 if found[0][0] == socket.AF_INET6 else 4
        uri = from_address(kind, found[0][4], version)
    elif uri.scheme == "ether":
        uri = uri._replace(host=_canonical_mac(uri.host) or uri.host)
    if not uri.is_canonical:
        raise ValueError(f"{text!r} is not a FaceUri of something that a face can be made to")
    return uri


def from_address(kind: str, address: object, version: int | None = None) -> FaceUri:
    """Return the URI of a socket address as Python has it; `kind` is udp or tcp."""
    host, port = str(address[0]), int(address[1])  # type: ignore[index]
    if version is None:
        version = 6 if ":" in host else 4
    return FaceUri(f"{kind}{version}", host, port)


def _canonical_address(text: str, version: int) -> str | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return str(address) if address.version == version else None


def _canonical_mac(text: str) -> str | None:
    if not _MAC.fullmatch(text):
        return None
    return ":".join(f"{int(part, 16):02x}" for part in text.split(":"))
