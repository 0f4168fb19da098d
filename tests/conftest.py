"""For all tests: Hypothesis without deadlines, since a shared machine has pauses of its own; and a home of
theirs, so that nothing that a user has installed or set changes what they see.

`--compiled` insists on compiled modules (base/compiled.py); FEEDNET_PLAIN=1 keeps them out.
"""

import os
import signal
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest
from fresh_seeds import first_fresh_seed
from hypothesis import settings

from base import compiled

compiled.use()  # before anything imports what may be compiled
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")

OF_THE_USER = (
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "WIRESHARK_PLUGIN_DIR"),
    *("NDN_CLIENT_TRANSPORT", "NDN_CLIENT_PIB", "NDN_CLIENT_TPM"),
    *("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS"),
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"),
    "PYTHONDONTWRITEBYTECODE",
)
"""What would change what programs do in tests."""


def pytest_configure(config: pytest.Config) -> None:
    """Give the tests, and what they start, surroundings that are the same for everybody."""
    home = TemporaryDirectory(prefix="feednet-home-")
    config.add_cleanup(home.cleanup)
    for name in OF_THE_USER:
        os.environ.pop(name, None)
    for number in (signal.SIGINT, signal.SIGQUIT):  # ignored in what a shell starts in the background
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL if number == signal.SIGQUIT else signal.default_int_handler)
    os.environ |= {"HOME": home.name, "WIRESHARK_CONFIG_DIR": f"{home.name}/wireshark", "LC_ALL": "C.UTF-8"}


@pytest.fixture(scope="module")
def plain_poll() -> Iterator[None]:
    """The layering plain-poll, and its protocol, are known while a module is tested."""
    from plain_poll.decoder import DECLARATION
    from plain_poll.layering import PlainPollLayering

    from analysis.decode.protocols.registry import PROTOCOLS
    from testbed.layerings.registry import LAYERINGS

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PROTOCOLS, "plain-poll", DECLARATION)
        patch.setitem(LAYERINGS, "plain-poll", PlainPollLayering())
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compiled", action="store_true", help="compiled modules must be in use")


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("compiled") and compiled.state() != "in use":
        raise pytest.UsageError(f"compiled modules are {compiled.state()}: make compiled")


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [
        "forwarder: " + ("compiled by mypyc" if compiled.state() == "in use" else "plain Python"),
        f"fresh seeds of this commit: from {first_fresh_seed()}",
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    if compiled.state() == "in use":
        left_out = [item for item in items if item.get_closest_marker("patches")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
