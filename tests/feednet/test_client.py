"""Feeds over python-ndn applications, through a running `feednet forward`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from daemon_process import CONFIG, DaemonProcess, running
from ndn import app as v1
from ndn import appv2 as v2
from ndn.encoding import Name
from ndn.security import DigestSha256Signer, KeychainDigest
from ndn.transport.face import Face
from ndn.transport.stream_face import TcpFace, UnixFace
from ndn.transport.udp_face import UdpFace
from ndn.types import InterestNack
from patience import PATIENCE_S

from feednet import Feeds, Forked, Log, Subscription
from forwarder.daemon.datasets import Client, snapshot
from forwarder.wire.feed import item_name, native_content
from forwarder.wire.packet import ED25519, make_data, parse_data

PREFIX = "/unibas/camera"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("forwarder")) as process:
        yield process


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """A forwarder that has never heard of long-lived Interests, as NFD has not."""
    with running(tmp_path_factory.mktemp("plain"), f"controlled_push = false\n{CONFIG}") as process:
        yield process


def unix(daemon: DaemonProcess) -> Face:
    return UnixFace(str(daemon.path))


FACES: dict[str, Callable[[DaemonProcess], Face]] = {
    "unix": unix,
    "tcp": lambda daemon: TcpFace("127.0.0.1", daemon.port("tcp4")),
    "udp": lambda daemon: UdpFace("127.0.0.1", daemon.port("udp4")),
}
APPS: dict[str, Callable[[Face], Any]] = {
    "app": lambda face: v1.NDNApp(face, KeychainDigest()),
    "appv2": v2.NDNApp,
}


@asynccontextmanager
async def connected(app: Any) -> AsyncIterator[Feeds]:
    """An application whose main loop runs meanwhile."""
    feeds = Feeds(app)
    started = asyncio.Event()

    async def after_start() -> None:
        started.set()

    loop = asyncio.create_task(app.main_loop(after_start()))
    await asyncio.wait_for(started.wait(), PATIENCE_S)
    try:
        yield feeds
    finally:
        app.shutdown()
        await asyncio.wait_for(loop, PATIENCE_S)


def run(story: Awaitable[None]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(story, 3 * PATIENCE_S)

    asyncio.run(limited())


async def take(subscription: Subscription, count: int) -> list[bytes]:
    async def taking() -> list[bytes]:
        return [(await anext(subscription)).message for _ in range(count)]

    return await asyncio.wait_for(taking(), PATIENCE_S)


def texts(first: int, last: int) -> list[bytes]:
    return [b"message %d" % number for number in range(first, last + 1)]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("kind", APPS)
def test_what_is_appended_is_delivered(daemon: DaemonProcess, tmp_path: Path, kind: str, face: str) -> None:
    async def story() -> None:
        async with (
            connected(APPS[kind](unix(daemon))) as publisher,
            connected(APPS[kind](FACES[face](daemon))) as subscriber,
        ):
            with closing(Log(tmp_path / "a.feed", PREFIX)) as log:
                feed = await publisher.publish(log)
                for text in texts(1, 100):
                    feed.append(text)
                async with subscriber.subscribe(feed.uri) as items:
                    assert await take(items, 100) == texts(1, 100)
                    for text in texts(101, 200):
                        feed.append(text)
                    assert await take(items, 100) == texts(101, 200)
                    # A burst keeps this event loop busy, and what seems lost meanwhile comes twice.
                    assert items.rejected.keys() <= {"duplicate"}
                async with subscriber.subscribe(feed.uri, after=150) as items:
                    assert await take(items, 50) == texts(151, 200)

    run(story())


def test_a_forwarder_has_one_entry_and_leaves_none(daemon: DaemonProcess, tmp_path: Path) -> None:
    def feeds_of(daemon: DaemonProcess) -> dict[str, Any]:
        with closing(Client(daemon.path)) as client:
            feeds: dict[str, Any] = snapshot(client)["feednet"]["feeds"]
            return feeds

    async def story() -> None:
        async with (
            connected(v2.NDNApp(unix(daemon))) as publisher,
            connected(v2.NDNApp(unix(daemon))) as one,
            connected(v2.NDNApp(unix(daemon))) as two,
        ):
            with closing(Log(tmp_path / "a.feed", PREFIX)) as log:
                feed = await publisher.publish(log)
                feed.append(b"message 1")
                before = await asyncio.to_thread(feeds_of, daemon)
                async with one.subscribe(feed.uri) as first, two.subscribe(feed.uri) as second:
                    assert await take(first, 1) == await take(second, 1) == texts(1, 1)
                    during = await asyncio.to_thread(feeds_of, daemon)
                    assert during["entries"] == 1
                    for text in texts(2, 30):
                        feed.append(text)
                    assert await take(first, 29) == await take(second, 29) == texts(2, 30)
                    after = await asyncio.to_thread(feeds_of, daemon)
                    pushed = after["counters"]["items_out"] - before["counters"].get("items_out", 0)
                    asked = after["counters"]["llis_in"] - before["counters"].get("llis_in", 0)
                    assert pushed >= 60
                    # Somebody without a processor for a while believes items lost, and asks again.
                    assert pushed > 60 or asked <= 4
                while (await asyncio.to_thread(feeds_of, daemon))["entries"]:
                    await asyncio.sleep(0.01)

    run(story())


def test_over_a_forwarder_that_cannot_push_it_pulls(plain: DaemonProcess, tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            connected(v2.NDNApp(unix(plain))) as publisher,
            connected(v2.NDNApp(unix(plain))) as subscriber,
        ):
            with closing(Log(tmp_path / "a.feed", PREFIX)) as log:
                feed = await publisher.publish(log)
                for text in texts(1, 80):
                    feed.append(text)
                async with subscriber.subscribe(feed.uri) as items:
                    assert await take(items, 80) == texts(1, 80)
                    for text in texts(81, 90):
                        feed.append(text)
                    assert await take(items, 10) == texts(81, 90)

    run(story())


def test_the_application_gets_what_is_its_own(daemon: DaemonProcess, tmp_path: Path) -> None:
    async def story() -> None:
        serving, asking = v2.NDNApp(unix(daemon)), v2.NDNApp(unix(daemon))

        @serving.route("/example/own")
        def on_interest(name: Any, _param: Any, reply: Any, _context: Any) -> None:
            reply(serving.make_data(name, b"own", DigestSha256Signer()))

        async with connected(serving) as publisher, connected(asking) as subscriber:
            with closing(Log(tmp_path / "a.feed", PREFIX)) as log:
                feed = await publisher.publish(log)
                feed.append(b"message 1")
                async with subscriber.subscribe(feed.uri) as items:
                    assert await take(items, 1) == texts(1, 1)
                    content = None
                    while content is None:
                        with suppress(InterestNack):  # until the route has been registered
                            _, content, _ = await asking.express("/example/own/x", v2.pass_all)
                    assert bytes(content) == b"own"

    run(story())


def test_a_slow_application_is_not_overrun(daemon: DaemonProcess, tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            connected(v2.NDNApp(unix(daemon))) as publisher,
            connected(v2.NDNApp(unix(daemon))) as subscriber,
        ):
            with closing(Log(tmp_path / "a.feed", PREFIX)) as log:
                feed = await publisher.publish(log)
                for text in texts(1, 50):
                    feed.append(text)
                async with subscriber.subscribe(feed.uri, credit=4) as items:
                    assert await take(items, 1) == texts(1, 1)
                    await asyncio.sleep(0.3)
                    assert items.arrived <= 8  # two grants ahead at most
                    assert await take(items, 49) == texts(2, 50)

    run(story())


def test_nobody_publishes_it_yet(daemon: DaemonProcess, tmp_path: Path) -> None:
    async def story() -> None:
        problems: list[str] = []
        async with (
            connected(v2.NDNApp(unix(daemon))) as publisher,
            connected(v2.NDNApp(unix(daemon))) as subscriber,
        ):
            with closing(Log(tmp_path / "a.feed", PREFIX)) as log:
                log.append(b"message 1")
                async with subscriber.subscribe(log.uri, on_problem=problems.append) as items:
                    waiting = asyncio.create_task(take(items, 1))
                    while not problems:
                        await asyncio.sleep(0.01)
                    assert problems == ["waiting"]
                    await publisher.publish(log)
                    assert await waiting == texts(1, 1)
                    assert problems == ["waiting", "resumed"]

    run(story())


def test_a_fork_ends_the_subscription(daemon: DaemonProcess, tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            connected(v2.NDNApp(unix(daemon))) as publisher,
            connected(v2.NDNApp(unix(daemon))) as subscriber,
        ):
            with closing(Log(tmp_path / "a.feed", PREFIX)) as log:
                first = log.append(b"message 1")
                feed = await publisher.publish(log)
                async with subscriber.subscribe(feed.uri) as items:
                    assert await take(items, 1) == texts(1, 1)
                    other = make_data(
                        item_name(log.name, 1),
                        native_content(b"", b"another message 1"),
                        signature_type=ED25519,
                        sign=log._identity.sign,
                    )
                    seconds = make_data(
                        item_name(log.name, 2),
                        native_content(parse_data(other).digest(), b"message 2"),
                        signature_type=ED25519,
                        sign=log._identity.sign,
                    )
                    assert first.data.wire != other
                    publisher._face.send(seconds)
                    with pytest.raises(Forked, match="forked at item 1") as caught:
                        await take(items, 1)
                    assert caught.value.fork.seq == 1

    run(story())


def test_a_lost_connection_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        with running(tmp_path) as daemon:
            app = v2.NDNApp(unix(daemon))
            async with connected(app) as feeds:
                with closing(Log(tmp_path / "a.feed", PREFIX)) as log:
                    items = feeds.subscribe(log.uri)
                    waiting = asyncio.create_task(take(items, 1))
                    await asyncio.sleep(0.2)
                    daemon.stop()
                    with pytest.raises(ConnectionError):
                        await waiting

    run(story())


def test_what_cannot_be(daemon: DaemonProcess, tmp_path: Path) -> None:
    async def story() -> None:
        async with connected(v2.NDNApp(unix(daemon))) as feeds:
            with pytest.raises(ValueError, match="32 bytes"):
                feeds.subscribe("/no/feed")
            with closing(Log(tmp_path / "a.feed", PREFIX)) as log:
                feed = await feeds.publish(log)
                with pytest.raises(ValueError, match="published already"):
                    await feeds.publish(log)
                with pytest.raises(ValueError, match="read its log"):
                    feeds.subscribe(log.uri)
                feed.close()
                feeds.subscribe(log.uri)
                with pytest.raises(ValueError, match="subscribed to already"):
                    feeds.subscribe(Name.to_str(Name.from_str(log.uri)))

    run(story())
