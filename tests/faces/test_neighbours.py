"""Neighbours that do not answer, from one configuration to the next."""

import asyncio

import pytest

from forwarder.daemon import neighbours
from forwarder.daemon.config import Config, FaceSection
from forwarder.daemon.daemon import Daemon
from forwarder.daemon.plan import Plan, prepare
from forwarder.faces import tcp


def plan(*routes: str) -> Plan:
    config = Config.model_validate({each: {"listen": False} for each in ("unix", "tcp", "udp")})
    section = FaceSection(uri="tcp4://127.0.0.1:9", routes=routes)
    return prepare(config.model_copy(update={"faces": (section,)}))


@pytest.mark.parametrize("seconds", [0.0, 0.001])
def test_one_attempt_at_a_time_however_often_is_reloaded(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Each attempt that ends begins the next: two at a time would be two for ever."""
    monkeypatch.setattr(neighbours, "RETRY_S", seconds)
    pending: list[asyncio.Future[None]] = []

    async def connect(*_: object) -> None:
        pending.append(asyncio.get_running_loop().create_future())
        await pending[-1]

    monkeypatch.setattr(tcp, "connect", connect)

    async def attempt() -> asyncio.Future[None]:
        """The attempt that is under way, alone."""
        while all(each.done() for each in pending):
            await asyncio.sleep(0)
        (one,) = [each for each in pending if not each.done()]
        return one

    async def main() -> None:
        daemon = Daemon(plan(), asyncio.get_running_loop())
        daemon.start()
        (await attempt()).set_exception(TimeoutError())
        for round_ in range(20):
            under_way = await attempt()
            await daemon.reload(plan(f"/{round_}"))
            assert await attempt() is under_way
            under_way.set_exception(TimeoutError())
        await attempt()
        daemon.close()

    asyncio.run(main())
