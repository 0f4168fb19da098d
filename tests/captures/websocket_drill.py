"""Runs inside a box, as a program: a server and a client of WebSocket on two hosts, and a recorder.

Arguments: directory for the capture, count of exchanges. Both ends are the library `websockets`, which
shares no code with ours. The client asks for /ws/seg=N, with a link header every third time, and then for
/cut/seg=N in two frames each; the server answers with up to 8,000 bytes, and sends pings, as NFD does.
"""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

from patience import PATIENCE_S
from recorder_drill import recorder_of, two_hosts
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from captures.layers.websocket import PORT
from forwarder.wire.lp import make_lp, parse_lp
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import make_data, make_interest, parse_interest

CUT = 5


def content(number: int) -> bytes:
    return bytes(number * 997 % 8000)


async def answer(connection: ServerConnection) -> None:
    async for message in connection:
        assert isinstance(message, bytes)
        asked = parse_interest(parse_lp(message).fragment)
        number = int(to_uri(asked.name).rpartition("=")[2])
        if number % 10 == 0:
            await connection.ping()
        await connection.send(make_data(asked.name, content(number)))


async def exchange(listening: socket.socket, calling: socket.socket, count: int) -> None:
    calling.connect(("10.0.0.2", PORT))
    calling.setblocking(False)
    async with (
        serve(answer, sock=listening, compression=None),
        connect(f"ws://10.0.0.2:{PORT}", sock=calling, compression=None) as client,
    ):
        for number in range(count):
            packet = make_interest(from_uri(f"/ws/seg={number}"), nonce=number)
            await client.send(packet if number % 3 else make_lp(packet, congestion_mark=1))
        for _ in range(count):
            await client.recv()
        for number in range(CUT):
            packet = make_interest(from_uri(f"/cut/seg={number}"), nonce=number)
            await client.send([packet[:7], packet[7:]])
            await client.recv()


def main() -> None:
    directory, count = Path(sys.argv[1]), int(sys.argv[2])
    a, b = two_hosts()
    listening, calling = b.open(socket.SOCK_STREAM), a.open(socket.SOCK_STREAM)
    listening.bind(("10.0.0.2", PORT))
    listening.listen()
    recorder = recorder_of(directory, a, b)
    asyncio.run(asyncio.wait_for(exchange(listening, calling, count), PATIENCE_S))
    os.kill(recorder.pid, signal.SIGTERM)
    sys.exit(recorder.wait())


if __name__ == "__main__":
    main()
