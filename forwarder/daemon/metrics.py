"""Counters for operators, over HTTP: /metrics as Prometheus reads them, /status.json for other programs.

Both are made from one sample. The event loop takes it, so that no table changes meanwhile; a thread writes it
down, so that packets do not wait for that. https://prometheus.io/docs/practices/naming/ has the rules
for names.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from email import message_from_string
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from forwarder.daemon.config import ConfigError, MetricsSection
from forwarder.daemon.daemon import Daemon
from forwarder.management.manager import own_version
from forwarder.tables.face import BYTE_COUNTERS, PACKET_COUNTERS

_PATIENCE_S = 10.0
_MOST_CONNECTIONS = 16

Sample = dict[str, Any]


def sample(daemon: Daemon, reloads: Counter[str]) -> Sample:
    """Return the counters of a forwarder, as /status.json has them: whole numbers, times in ms since 1970."""
    node, now = daemon.forwarder, daemon.faces.driver.clock()
    tables = {
        "faces": len(node.faces),
        "fib": len(node.fib),
        "routes": len(daemon.management.rib),
        "pit": len(node.pit),
        "dead_nonces": len(node.dead_nonces),
        "content_store": len(node.cs),
        "content_store_capacity": node.cs.capacity,
    }
    taken: Sample = {
        "version": own_version(),
        "started_ms": daemon.started // 1_000_000,
        "now_ms": now // 1_000_000,
        "tables": tables,
        "counters": node.counters.as_dict(),
        "management": dict(daemon.management.counters),
        "drops": dict(daemon.faces.driver.drops),
        "reloads": dict(reloads),
        "faces": [
            {"face": face.number, "uri": face.uri, "local_uri": face.local_uri, "up": int(face.is_up)}
            | {name: getattr(face, name) for name in (*PACKET_COUNTERS, *BYTE_COUNTERS)}
            for face in node.faces.values()
        ],
    }
    if node.feeds is not None:
        tables["feeds"] = len(node.feeds)
        taken["feeds"] = dict(node.feeds.counters)
    return taken


def families(taken: Sample) -> Iterator[Metric]:
    """Yield a sample as Prometheus has it."""
    yield GaugeMetricFamily("feednet_start_time_seconds", "Start, since 1970.", taken["started_ms"] / 1000)
    entries = GaugeMetricFamily("feednet_entries", "Entries of a table.", labels=["table"])
    for table, size in taken["tables"].items():
        if table != "content_store_capacity":
            entries.add_metric([table], size)
    yield entries
    yield GaugeMetricFamily(
        "feednet_content_store_capacity", "Most Data packets.", taken["tables"]["content_store_capacity"]
    )
    counts = dict(taken["counters"])
    packets = CounterMetricFamily("feednet_packets", "Packets of all faces.", labels=["direction", "type"])
    for name in PACKET_COUNTERS:
        packets.add_metric(name.split("_"), counts.pop(name))
    yield packets
    yield _by("feednet_events", "What became of packets.", "event", counts)
    yield _by("feednet_feed_events", "What became of packets of feeds.", "event", taken.get("feeds", {}))
    yield _by("feednet_management", "Commands and queries.", "outcome", taken["management"])
    yield _by("feednet_drops", "Frames, connections and neighbours turned away.", "reason", taken["drops"])
    yield _by("feednet_reloads", "Reloads of the configuration.", "outcome", taken["reloads"])
    yield from _of_faces(taken["faces"])


def _by(name: str, about: str, label: str, counts: dict[str, int]) -> Metric:
    family = CounterMetricFamily(name, about, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def _of_faces(faces: Iterable[dict[str, Any]]) -> Iterator[Metric]:
    which = ["face", "uri"]
    up = GaugeMetricFamily("feednet_face_up", "Whether a face's link works.", labels=which)
    packets = CounterMetricFamily("feednet_face_packets", "Packets.", labels=[*which, "direction", "type"])
    size = CounterMetricFamily("feednet_face_bytes", "Bytes of frames.", labels=[*which, "direction"])
    for face in faces:
        labels = [str(face["face"]), face["uri"]]
        up.add_metric(labels, face["up"])
        for name in PACKET_COUNTERS:
            packets.add_metric([*labels, *name.split("_")], face[name])
        for name in BYTE_COUNTERS:
            size.add_metric([*labels, name.partition("_")[0]], face[name])
    yield from (up, packets, size)


class _Collector(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


class Metrics:
    """Answers requests for counters.

    Args:
        daemon: whose counters.
        section: of the configuration.

    Attributes:
        reloads: of the configuration, by outcome: done, refused, failed.
    """

    def __init__(self, daemon: Daemon, section: MetricsSection) -> None:
        self.reloads: Counter[str] = Counter(done=0, refused=0, failed=0)
        self._daemon = daemon
        self._section = section
        self._server: asyncio.Server | None = None
        self._connections = 0
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)

    async def start(self) -> list[str]:
        """Listen, if the configuration says so; return the addresses as URLs. Raises ConfigError."""
        address, port = self._section.address, self._section.port
        if not self._section.listen:
            return []
        try:
            self._server = await asyncio.start_server(self._serve, address, port)
        except OSError as error:
            raise ConfigError(f"metrics port {port} at {address}: {os.strerror(error.errno or 0)}") from error
        return [_url(sock.getsockname()) for sock in self._server.sockets]

    def close(self) -> None:
        """Close the listening sockets."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and end the connection: a scrape is rare, and files belong to faces."""
        self._connections += 1
        writer.transport.set_write_buffer_limits(0)  # drain() waits until the kernel has all
        try:
            if self._connections <= _MOST_CONNECTIONS:
                async with asyncio.timeout(_PATIENCE_S):
                    writer.write(await self._answer(await reader.readuntil(b"\r\n\r\n")))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.transport.abort()  # it has gone, reads nothing, or says nothing that is a request
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, request: bytes) -> bytes:
        line, _, head = request.partition(b"\r\n")
        method, _, rest = line.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"GET and HEAD only\n", method)
        write = {"/metrics": self._as_metrics, "/status.json": _as_json}.get(path)
        if write is None:
            return _response(HTTPStatus.NOT_FOUND, "text/plain", b"/metrics, /status.json\n", method)
        accepted = message_from_string(head.decode("latin-1")).get("Accept", "")
        taken = sample(self._daemon, self.reloads)
        kind, body = await asyncio.get_running_loop().run_in_executor(None, write, taken, accepted)
        return _response(HTTPStatus.OK, kind, body, method)

    def _as_metrics(self, taken: Sample, accepted: str) -> tuple[str, bytes]:
        try:
            encode, kind = choose_encoder(" ".join(accepted.split()))
        except (TypeError, ValueError):  # of a version that is no number
            encode, kind = choose_encoder("")
        registry = CollectorRegistry()
        registry.register(_Collector([*families(taken), *self._process.collect()]))
        return kind, encode(registry)


def _as_json(taken: Sample, _: str) -> tuple[str, bytes]:
    return "application/json", json.dumps(taken).encode()


def _response(status: HTTPStatus, kind: str, body: bytes, method: str) -> bytes:
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + (b"" if method == "HEAD" else body)


def _url(address: tuple[Any, ...]) -> str:
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"http://{host}:{address[1]}/metrics"
