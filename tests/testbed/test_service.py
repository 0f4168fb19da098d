"""The forwarder as a service, the short form of an hour (docs/operating.md); and faults that it notices."""

import pytest
from slow import but_slow

from testbed.verify.kit.outcome import Violation
from testbed.verify.soak import service

pytestmark = pytest.mark.long


def test_reloads_moved_logs_signals_restarts_and_kills() -> None:
    drill = service.soak(lambda drill: len(drill.happened) == len(service.EVENTS) and enough(drill, 40), 2)
    assert all(drill.clients.asked[scheme] for scheme in service.SCHEMES)


def enough(drill: service.Drill, events: int) -> bool:
    return drill.happened.total() >= events


FAULTS = {
    "faces are made anew": """
from forwarder.daemon.neighbours import Neighbours
apply = Neighbours.apply
def anew(self, wanted, groups):
    for number in list(self._by_face):
        self._faces.remove(number, "mutant")
    return apply(self, wanted, groups)
Neighbours.apply = anew
""",
    "old routes go before new ones come": """
from forwarder.daemon.neighbours import Neighbours
from forwarder.tables.rib import Origin
apply = Neighbours.apply
async def later(self, wanted, groups):
    import asyncio
    for face, prefixes in self._registered.items():
        for prefix in prefixes:
            self._rib.unregister(prefix, face, Origin.STATIC)
    await asyncio.sleep(0.05)
    await apply(self, wanted, groups)
def apart(self, wanted, groups):
    if self._registered:
        return self._loop.create_task(later(self, wanted, groups))
    return apply(self, wanted, groups)
Neighbours.apply = apart
""",
    "routes that are named no more stay": """
from forwarder.daemon.neighbours import Neighbours
Neighbours._withdraw = lambda self, gone: None
""",
    "the socket file stays": """
from forwarder.faces import unix
unix.unlink = lambda sock, path, inode: sock.close()
""",
    "the log of a reload is lost": """
from forwarder.daemon import logs
set_up = logs.set_up
logs.set_up = lambda level, file=None: set_up(level, None)
""",
}


SLOW = ("routes that are named no more stay", "the socket file stays")


@pytest.mark.parametrize("fault", but_slow(FAULTS, *SLOW))
def test_a_fault_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.Supervised, "program", FAULTS[fault] + service.Supervised.program)
    monkeypatch.setattr(service, "_LIFETIME_MS", 2000)
    with pytest.raises(Violation):
        service.soak(lambda drill: enough(drill, 60), 1)
