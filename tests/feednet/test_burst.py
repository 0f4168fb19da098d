"""What a publisher does with Interests that have waited while it was busy; what a client says to Hellos."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from feednet import Feeds, Log
from feednet.client import without_repeats
from forwarder.wire.feed import feed_name, item_name, split_item
from forwarder.wire.hello import Hello, make_hello
from forwarder.wire.lp import open_data
from forwarder.wire.packet import Interest, make_interest, parse_interest

FEED = feed_name(b"", bytes(32))


def asked(first: int, credit: int | None, nonce: int = 0) -> Interest:
    return parse_interest(make_interest(item_name(FEED, first), nonce=nonce, send_credit=credit))


def test_of_interests_that_say_the_same_the_last_counts() -> None:
    one, again, more = asked(1, 64, 1), asked(1, 64, 2), asked(65, 64)
    assert without_repeats([one, again, more]) == [again, more]
    assert without_repeats([one, more, again]) == [more, again]
    wide = asked(1, 128)
    assert without_repeats([one, more, wide]) == without_repeats([wide, one, more]) == [wide]
    assert without_repeats([asked(1, 10), second := asked(5, 10)])[1] is second
    single, other = asked(7, None, 1), asked(7, None, 2)
    assert without_repeats([single, one, other]) == [one, other]


def test_what_was_asked_for_before_a_cancellation_is_not_wanted() -> None:
    cancel, later = asked(1, 0), asked(3, 4)
    assert without_repeats([asked(1, 64), cancel]) == [cancel]
    assert without_repeats([asked(1, 64), cancel, later]) == [cancel, later]
    assert without_repeats([asked(1, 64), single := asked(9, None), cancel]) == [single, cancel]


class FakeFace:
    """Keeps what is sent."""

    running = True

    def __init__(self) -> None:
        self.callback: Callable[[int, bytes], Awaitable[None]] | None = None
        self.sent: list[bytes] = []

    def send(self, packet: bytes) -> None:
        self.sent.append(packet)

    def shutdown(self) -> None:
        pass


class FakeApp:
    """Registers anything, by a way of its own."""

    def __init__(self) -> None:
        self.face = FakeFace()
        self.registerer = self

    async def register(self, _name: str) -> bool:
        return True


def test_an_impatient_forwarder_gets_everything_once(tmp_path: Path) -> None:
    async def story() -> None:
        app = FakeApp()
        with closing(Log(tmp_path / "a.feed", "/a")) as log:
            feed = await Feeds(app).publish(log)
            assert app.face.callback is not None
            for number in range(100):
                feed.append(b"%d" % number)
            for nonce in range(5):  # time-outs, doubling: what came while it appended
                lli = make_interest(item_name(log.name, 1), nonce=nonce, send_credit=64)
                await app.face.callback(5, lli)
            for first in range(1, 33):  # and then taken for one that cannot push
                pull = make_interest(item_name(log.name, first), nonce=first, send_credit=1)
                await app.face.callback(5, pull)
            await asyncio.sleep(0)
            opened = [data for packet in app.face.sent if (data := open_data(packet)) is not None]
            assert [split_item(data.name) for data, _ in opened] == [(log.name, n) for n in range(1, 65)]
            feed.close()

    asyncio.run(story())


def test_a_forwarder_that_asks_whether_its_packets_arrive_is_told_so_and_no_more() -> None:
    async def story() -> None:
        app = FakeApp()
        Feeds(app)
        assert app.face.callback is not None
        for hello in (Hello(7), Hello(reply=8), Hello(granted=bytes(8))):
            await app.face.callback(100, make_hello(hello))
        assert app.face.sent == [make_hello(Hello(reply=7))], "a number would want a reply"

    asyncio.run(story())
