"""Programs as they are: python-ndn's applications and pynfdc, over a Unix socket, unchanged."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from memory_faces import Node
from ndn import app, appv2
from ndn.app_support.nfd_mgmt import make_command, parse_response
from ndn.security import KeychainDigest
from ndn.transport.nfd_registerer import NfdRegister
from ndn.transport.stream_face import UnixFace
from ndn.types import ValidResult
from patience import PATIENCE_S
from served_node import served

from forwarder.wire.name import from_uri, to_uri


def test_an_application_of_appv2_serves_another(tmp_path: Path) -> None:
    node = Node()
    path = tmp_path / "nfd.sock"

    async def talk() -> bytes:
        producer = appv2.NDNApp(UnixFace(str(path)), registerer=NfdRegister())
        consumer = appv2.NDNApp(UnixFace(str(path)), registerer=NfdRegister())

        @producer.route("/app")
        def on_interest(name: Any, _parameters: Any, reply: Any, _context: Any) -> None:
            reply(producer.make_data(name, b"hello", KeychainDigest().get_signer({}), freshness_period=1000))

        async def pass_all(*_: Any) -> ValidResult:
            return ValidResult.PASS

        async def fetch() -> bytes:
            while not node.forwarder.fib.lookup(from_uri("/app")):
                await asyncio.sleep(0.01)
            _, content, _ = await consumer.express("/app/1", pass_all, lifetime=60_000)
            consumer.shutdown()
            producer.shutdown()
            return bytes(content)

        _, _, content = await asyncio.wait_for(
            asyncio.gather(producer.main_loop(), consumer.main_loop(), delayed(fetch)), PATIENCE_S
        )
        return content

    async def delayed(what: Any) -> Any:
        await asyncio.sleep(0.1)
        return await what()

    with served(node, path):
        assert asyncio.run(talk()) == b"hello"


def test_an_application_of_app_registers_and_unregisters(tmp_path: Path) -> None:
    node = Node()
    path = tmp_path / "nfd.sock"
    seen = []

    async def talk() -> None:
        client = app.NDNApp(UnixFace(str(path)), KeychainDigest())

        async def after() -> None:
            seen.append(await client.register("/old", lambda *_: None))
            seen.append(bool(node.forwarder.fib.lookup(from_uri("/old"))))
            seen.append(await client.unregister("/old"))
            seen.append(bool(node.forwarder.fib.lookup(from_uri("/old"))))
            command = make_command("faces", "create", client.face, uri="udp4://192.0.2.7:6363")
            _, _, content = await client.express_interest(command, lifetime=60_000)
            seen.append(parse_response(content)["status_code"])
            client.shutdown()

        await asyncio.wait_for(client.main_loop(after()), PATIENCE_S)

    with served(node, path):
        asyncio.run(talk())
    assert seen == [True, True, True, False, 200]


def test_routes_go_with_the_application(tmp_path: Path) -> None:
    node = Node()
    path = tmp_path / "nfd.sock"

    async def talk() -> None:
        client = app.NDNApp(UnixFace(str(path)), KeychainDigest())

        async def after() -> None:
            await client.register("/mine", None)
            client.shutdown()

        await asyncio.wait_for(client.main_loop(after()), PATIENCE_S)
        for _ in range(30_000):
            if not node.forwarder.fib.lookup(from_uri("/mine")):
                return
            await asyncio.sleep(0.01)

    with served(node, path):
        asyncio.run(talk())
        assert [to_uri(prefix) for prefix, _ in node.management.rib.items()] == ["/localhost/nfd"]


@pytest.fixture(scope="module")
def pynfdc(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run pynfdc commands one after the other against one node."""
    node = Node()
    path = tmp_path_factory.mktemp("pynfdc") / "nfd.sock"

    def run(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "ndn.bin.nfdc", *arguments],
            env={**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{path}", "HOME": str(path.parent)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        ).stdout

    with served(node, path):
        yield run


def test_pynfdc_does_its_work(pynfdc: Any) -> None:
    assert "feednet" in pynfdc("status")
    assert "200 OK" in pynfdc("New-Face", "udp4://192.0.2.7:6363")
    assert "udp4://192.0.2.7:6363" in pynfdc("face")
    assert "NON_LOCAL" in pynfdc("face", "udp4://192.0.2.7:6363")
    face = pynfdc("face").partition("udp4://192.0.2.7")[0].split()[-1]
    assert "200" in pynfdc("New-Route", "/far", face)
    assert "/far" in pynfdc("route")
    assert "200" in pynfdc("Set-Strategy", "/far", "/localhost/nfd/strategy/multicast")
    assert "multicast" in pynfdc("strategy")
    assert "200" in pynfdc("Remove-Strategy", "/far")
    assert "200" in pynfdc("Remove-Route", "/far", face)
    assert "/far" not in pynfdc("route")
    assert "200" in pynfdc("Remove-Face", face)
