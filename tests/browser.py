"""Chromium without a window, which a test tells what to do and waits for, however long that takes.

It is spoken to over two pipes, in the Chrome DevTools Protocol: JSON messages, a zero byte after each. A page
says itself when it is ready or that it cannot be drawn, a probe when it is done: no time is set for either.
"""

import atexit
import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_DUPFD_CLOEXEC, fcntl
from functools import cache
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Any

from patience import PATIENCE_S

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

READY = """
new Promise((done) => {
  const root = document.documentElement;
  const look = () => {
    const failed = document.getElementById("failed");
    if (root.dataset.ready === "true" || (failed !== null && !failed.hidden)) done(root.outerHTML);
    else setTimeout(look, 20);
  };
  look();
})
"""

PROBE = """
(async () => {
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const until = async (holds) => { while (!holds()) await wait(20); };
  const saved = [];
  URL.createObjectURL = (blob) => { saved.push(blob); return "#"; };
  HTMLAnchorElement.prototype.click = function () { saved.push(this.download); };
  const choose = (id, value) => {
    const menu = document.getElementById(id) ?? document.querySelector(id);
    menu.value = value;
    menu.dispatchEvent(new Event("input"));
    menu.dispatchEvent(new Event("change"));
  };
  const file = async (selector) => {
    saved.length = 0;
    document.querySelector(selector).click();
    await until(() => saved.length === 2);
    return [saved[1], await saved[0].text()];
  };
  const text = (id) => document.getElementById(id).textContent;
  return await (async () => { PROBED })();
})()
"""


class Browser:
    """Loads pages, each in a context of its own; what their consoles say is kept in `said`.

    All share one process of Chromium, as starting it takes longer than most pages do.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.said: list[str] = []

    def run(self, page: str) -> str:
        """Load a page; return its document as it is when the page says that it is ready."""
        with self._loaded(page) as (_, document):
            return document

    def probe(
        self, page: str, script: str, *, fragment: str = "", width: int = 800, is_dark: bool = False
    ) -> Any:
        """Load a page in a window so many pixels wide and run a script in it; return what the script returns.
        `is_dark`: the user prefers dark colours."""
        with self._loaded(page, fragment, width, is_dark) as (tab, _):
            return tab.evaluate(PROBE.replace("PROBED", script))

    def print(self, page: str) -> bytes:
        """Load a page and print it; return the PDF."""
        with self._loaded(page) as (tab, _):
            return base64.b64decode(tab.call("Page.printToPDF")["data"])

    @contextmanager
    def _loaded(
        self, page: str, fragment: str = "", width: int = 800, is_dark: bool = False
    ) -> Iterator[tuple["_Tab", str]]:
        path = self._directory / "page.html"
        path.write_text(page, encoding="utf-8")
        tab = _Tab(_chromium())
        try:
            tab.open(f"file://{path}{fragment}", width, is_dark)
            yield tab, tab.evaluate(READY)
        finally:
            tab.close()
            self.said += tab.said


@cache
def _chromium() -> "_Chromium":
    profile = TemporaryDirectory(prefix="feednet-chromium-")
    started = _Chromium(profile.name)
    atexit.register(profile.cleanup)
    atexit.register(started.close)
    return started


class _Chromium:
    """A process of Chromium."""

    def __init__(self, profile: str) -> None:
        assert CHROMIUM is not None
        (theirs_in, self._to), (self._from, theirs_out) = _pipe(), _pipe()
        self._number = 0
        self._unread = b""
        command = [CHROMIUM, "--headless", "--disable-gpu", f"--user-data-dir={profile}"]
        command += ["--remote-debugging-pipe", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        script = f'exec 3<&{theirs_in} 4>&{theirs_out} {theirs_in}<&- {theirs_out}>&-; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs_in, theirs_out),
        )
        os.close(theirs_in)
        os.close(theirs_out)

    def send(self, message: dict[str, Any]) -> int:
        """Send a message under a new number; return the number."""
        self._number += 1
        os.write(self._to, json.dumps({"id": self._number} | message).encode() + b"\0")
        return self._number

    def receive(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            assert select([self._from], [], [], PATIENCE_S)[0], "Chromium hangs"
            read = os.read(self._from, 1 << 20)
            assert read, "Chromium has ended"
            self._unread += read
        first, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)


class _Tab:
    """A page that is open."""

    def __init__(self, chromium: _Chromium) -> None:
        self._chromium = chromium
        self.said: list[str] = []
        self._session: dict[str, str] = {}
        self._loaded: set[str] = set()
        self._context = self.call("Target.createBrowserContext")["browserContextId"]

    def open(self, address: str, width: int, is_dark: bool) -> None:
        where = {"url": "about:blank", "browserContextId": self._context}
        target = self.call("Target.createTarget", **where)["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        loader = self.call("Page.navigate", url=address)["loaderId"]
        while loader not in self._loaded:
            self._receive()

    def evaluate(self, script: str) -> Any:
        """Run a script, and wait for what it promises."""
        told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, (told["exceptionDetails"], self.said)
        return told["result"].get("value")

    def call(self, method: str, **parameters: Any) -> Any:
        """Have Chromium do something; return what it says to that."""
        number = self._chromium.send({"method": method, "params": parameters} | self._session)
        while (answer := self._receive()).get("id") != number:
            pass
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def close(self) -> None:
        self._session = {}
        self.call("Target.disposeBrowserContext", browserContextId=self._context)

    def _receive(self) -> dict[str, Any]:
        message = self._chromium.receive()
        method, parameters = message.get("method"), message.get("params", {})
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(json.dumps(parameters))
        if method == "Page.lifecycleEvent" and parameters["name"] == "load":
            self._loaded.add(parameters["loaderId"])
        return message


def _pipe() -> tuple[int, int]:
    """Return a pipe's ends under numbers above 3 and 4, where Chromium reads and writes."""
    low = os.pipe()
    read, write = (fcntl(end, F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return read, write
