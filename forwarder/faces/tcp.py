"""TCP connections: made, and made again when they have broken."""

import asyncio
import socket
from contextlib import suppress

from forwarder.faces.uri import FaceUri

CONNECT_S = 8.0
"""Time limit for establishing a connection."""
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 300.0


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; raise OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


async def connect(remote: FaceUri, seconds: float) -> socket.socket:
    """Return a connected socket that does not block; raise OSError."""
    loop = asyncio.get_running_loop()
    sock = socket.socket(remote.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.wait_for(loop.sock_connect(sock, remote.address), seconds)
    except BaseException:
        sock.close()
        raise
    return sock


async def reconnect(remote: FaceUri) -> socket.socket:
    """Return a connected socket, however long it takes: the waits double up to five minutes, as NFD's do."""
    loop = asyncio.get_running_loop()
    wait = _FIRST_WAIT_S
    while True:
        begun = loop.time()
        with suppress(OSError):
            return await connect(remote, wait)
        await asyncio.sleep(max(begun + wait - loop.time(), 0))
        wait = min(2 * wait, _LONGEST_WAIT_S)
