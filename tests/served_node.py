"""A node behind a Unix socket, for clients that are real programs."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_faces import Node

from forwarder.wire.lp import parse_lp
from forwarder.wire.tlv import MalformedPacket, read_header


class _Server:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.writers: dict[int, asyncio.StreamWriter] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        face = self.node.faces.add(now=time.time_ns()).number
        self.writers[face] = writer
        buffer = b""
        try:
            while received := await reader.read(65536):
                buffer += received
                while (size := _size(buffer)) is not None:
                    packet, buffer = buffer[:size], buffer[size:]
                    self.send(self.node.forward(packet, time.time_ns(), face))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            del self.writers[face]
            self.node.faces.destroy(face, time.time_ns())
            writer.close()

    def send(self, packets: list[tuple[int, bytes]]) -> None:
        for face, packet in packets:
            if face in self.writers:
                header = parse_lp(packet)
                self.writers[face].write(packet if header.nack_reason is not None else header.fragment)


def _size(buffer: bytes) -> int | None:
    try:
        _, _, end = read_header(buffer, 0, 1 << 16)
    except (MalformedPacket, IndexError):
        return None
    return end if end <= len(buffer) else None


@contextmanager
def served(node: Node, path: Path) -> Iterator[None]:
    """Serve a node at a socket, in a thread of its own."""
    loop = asyncio.new_event_loop()
    server = _Server(node)
    listening = loop.run_until_complete(asyncio.start_unix_server(server.serve, str(path)))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def stop() -> None:
        listening.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
