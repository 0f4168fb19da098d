"""A forwarder that minds the order of commands takes ours: NFD where it is on PATH, a stand-in everywhere."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import nfd_process
import pytest
from as_nfd import AsNfd
from hypothesis import given
from hypothesis import strategies as st
from memory_faces import Node
from ndn import app as v1
from ndn import appv2 as v2
from ndn.security import KeychainDigest
from ndn.transport.stream_face import UnixFace
from nfd_process import App, nfd
from patience import PATIENCE_S
from served_node import served
from signing import ed25519_key, named, old_command, parameters, signed_command

from base.units import MS
from feednet import Feeds, Log
from feednet.attachment import Attachment
from feednet.files import Files
from forwarder.daemon.commands import Signer
from forwarder.daemon.datasets import Client, snapshot
from forwarder.management.commands import parse_request
from forwarder.management.parameters import ControlParameters, parse_response
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, parse_data, parse_interest

MANY = 30
APPS: dict[str, Callable[[Path], Any]] = {
    "app": lambda path: v1.NDNApp(UnixFace(str(path)), KeychainDigest()),
    "appv2": lambda path: v2.NDNApp(UnixFace(str(path))),
}


@contextmanager
def stand_in(directory: Path) -> Iterator[Path]:
    with served(Node(AsNfd()), directory / "nfd.sock"):
        yield directory / "nfd.sock"


@contextmanager
def real(directory: Path) -> Iterator[Path]:
    with nfd(directory / "nfd") as process:
        yield process.path


@pytest.fixture(
    params=[
        stand_in,
        pytest.param(real, marks=pytest.mark.skipif(nfd_process.WHY_NOT is not None, reason="no NFD")),
    ],
    ids=["a stand-in", "NFD"],
)
def strict(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The socket of a forwarder that minds the order of commands."""
    with request.param(tmp_path) as path:
        yield path


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock shows one millisecond while a test runs, as it does to one who is quick."""
    shown = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: shown)
    monkeypatch.setattr(time, "time", lambda: shown / 1e9)


def test_which_are_taken(strict: Path) -> None:
    """The stand-in and NFD answer the same: see AsNfd."""
    now, ours, nonces = time.time_ns() // MS, ed25519_key(), count(1)

    def command(form: Callable[..., bytes] = signed_command, key: Any = None, **given: Any) -> bytes:
        if form is signed_command:
            given = {"nonce": next(nonces).to_bytes(8, "big")} | given
        return form("rib/register", parameters(named("/x")), key, **given)

    told = [
        (command(time=now), 200),
        (command(time=now), 403),
        (command(time=now - 1), 403),
        (command(time=now, key=ours), 200),
        (command(time=now, key=ours), 403),
        (command(time=now + 1), 200),
        (command(time=now + 5, nonce=b""), 403),
        (command(time=now + 5, nonce=(1).to_bytes(8, "big")), 403),
        (command(time=None), 403),
        (command(time=now + 600_000), 403),
        (command(time=now - 600_000, key=ed25519_key("/dan/KEY/1")), 403),
        (command(old_command, time=now + 1), 403),
        (command(old_command, time=now + 7), 200),
        (command(time=now + 7), 403),
        (command(time=now + 8), 200),
    ]
    with closing(App(strict)) as app:
        assert [answer(app, each) for each, _ in told] == [code for _, code in told]


def answer(app: App, command: bytes) -> int:
    app.say(command)
    return code_of(app)


def code_of(app: App) -> int:
    return parse_response(parse_data(app.got().fragment).content).code


def test_a_thousand_commands_before_the_first_answer(strict: Path) -> None:
    signer = Signer()
    with closing(App(strict)) as app:
        for number in range(1000):
            app.say(signer.register(from_uri(f"/quick/{number}")))
        assert {code_of(app) for _ in range(1000)} == {200}


def test_a_thousand_commands_one_by_one(strict: Path) -> None:
    with closing(Client(strict)) as client:
        wanted = [ControlParameters(name=from_uri(f"/quick/{number}")) for number in range(1000)]
        assert {client.command("rib/register", each).code for each in wanted} == {200}


@pytest.mark.usefixtures("stopped")
def test_clients_that_take_turns_within_a_millisecond(strict: Path) -> None:
    with closing(Client(strict)) as one, closing(Client(strict)) as two:
        for number in range(MANY):
            for client in (one, two):
                wanted = ControlParameters(name=from_uri(f"/turn/{number}"))
                assert client.command("rib/register", wanted).code == 200
        assert one.command("rib/unregister", wanted).code == 200


def talk(story: Awaitable[None]) -> None:
    asyncio.run(asyncio.wait_for(story, PATIENCE_S))  # type: ignore[arg-type]


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("kind", APPS)
def test_applications_publish_many_feeds_at_once(strict: Path, tmp_path: Path, kind: str) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            publishing = []
            for number in range(2):
                app, started = APPS[kind](strict), asyncio.Event()
                feeds = Feeds(app)
                running = asyncio.create_task(app.main_loop(after(started)))
                await started.wait()
                stack.push_async_callback(ended, app, running)
                for each in range(MANY):
                    log = Log(tmp_path / f"{number}-{each}.feed", f"/app/{number}")
                    stack.callback(log.close)
                    publishing.append(feeds.publish(log))
            published = await asyncio.gather(*publishing)
            assert len({feed.uri for feed in published}) == 2 * MANY

    talk(story())


async def after(started: asyncio.Event) -> None:
    started.set()


async def ended(app: Any, running: "asyncio.Task[None]") -> None:
    app.shutdown()
    await running


@pytest.mark.usefixtures("stopped")
def test_an_attached_application_has_all_its_prefixes(
    strict: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NDN_CLIENT_TRANSPORT", f"unix://{strict}")
    names = frozenset(from_uri(f"/files/{number}") for number in range(MANY))
    wanted, problems = set(names), list[str]()
    files = Files(from_uri("/files"), tmp_path, lambda name, content, _, __: make_data(name, content))
    attachment = Attachment(files, lambda: wanted, lambda: None, problems.append)

    def registered() -> set[bytes]:
        with closing(Client(strict)) as client:
            return {from_uri(row["prefix"]) for row in snapshot(client, with_own=False)["rib"]} & names

    async def story() -> None:
        running = asyncio.create_task(attachment.run())
        for gone in (set[bytes](), set(list(names)[::2])):
            wanted.difference_update(gone)
            attachment.settle()
            while registered() != wanted:
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    talk(story())
    assert problems == []


@given(st.lists(st.integers(-2000, 2000), min_size=1, max_size=50), st.integers(0, 99))
def test_a_command_is_later_than_the_one_before_whatever_the_clock_does(steps: list[int], seed: int) -> None:
    clock = [1_700_000_000_000]
    signer = Signer(lambda: clock[0], Random(seed))
    node, times = Node(AsNfd()), list[int]()
    for step in steps:
        clock[0] += step
        interest = signer.register(from_uri("/a"))
        signature = parse_request(parse_interest(interest)).signature
        assert signature is not None
        assert signature.time is not None
        assert signature.key == signer.key_name
        assert signature.value == signer.sign(signature.signed)
        times.append(signature.time)
        assert signature.time == max(clock[0], times[-2] + 1 if times[1:] else 0)
        assert parse_response(node.reply(interest, clock[0] * MS).content).code == 200
    assert times == sorted(set(times))
