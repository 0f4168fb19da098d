"""Applications of a host are asked for outputs and deadlines only after something may have changed them."""

from random import Random

from base.passive import PassiveApplication
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest


class Counted(PassiveApplication):
    """An application that counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = self.woken = 0
        self.due: int | None = None

    def take_outputs(self) -> list[bytes]:
        self.asked += 1
        return super().take_outputs()

    def next_deadline(self) -> int | None:
        self.asked += 1
        return self.due

    def wake(self, now: int) -> None:
        self.woken, self.due = now, None


def make_host() -> tuple[Host, Counted, int, int]:
    """Return a host, its application, and the faces of two links, the second of which leads to /far."""
    host = Host(Forwarder(rng=Random(1)))
    first, second = host.add_link(), host.add_link()
    application = Counted()
    host.forwarder.fib.add(from_uri("/near"), host.attach(application))
    host.forwarder.fib.add(from_uri("/far"), second)
    settled(host)
    return host, application, first, second


def settled(host: Host) -> list[int]:
    """Return the faces of what the host sends; ask for its deadline, as all drivers do."""
    faces = [face for face, _, _ in host.take_outputs()]
    host.next_deadline()
    return faces


def interest(uri: str) -> bytes:
    return make_interest(from_uri(uri), nonce=1, lifetime_ms=1000)


def test_packets_that_pass_by_do_not_ask_an_application() -> None:
    host, application, first, second = make_host()
    before = application.asked
    host.receive(first, interest("/far/1"), None, 5)
    assert settled(host) == [second]
    assert application.asked == before
    host.receive(first, interest("/near/1"), None, 6)
    settled(host)
    assert application.asked > before


def test_a_deadline_wakes_it_though_packets_have_passed_by() -> None:
    host, application, first, _ = make_host()
    application.due = 100
    host.stir()
    settled(host)
    host.receive(first, interest("/far/1"), None, 50)
    settled(host)
    assert host.next_deadline() == 100
    host.wake(99)
    assert application.woken == 0
    host.wake(100)
    assert application.woken == 100


def test_an_application_that_was_called_from_elsewhere_is_asked_after_stir() -> None:
    host, application, _, second = make_host()
    application.outputs.append(interest("/far/1"))
    assert settled(host) == []
    host.stir()
    assert settled(host) == [second]
