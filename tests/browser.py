"""Chromium without a window, which a test tells what to do and waits for, however long that takes.

It is spoken to over two pipes, in the Chrome DevTools Protocol: JSON messages, a zero byte after each. A page
says itself when it is ready or that it cannot be drawn, a probe when it is done: no time is set for either.
"""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from select import select
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
    """Loads pages in Chromium, each in one of its own; what their consoles say is kept in `said`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.said: list[str] = []

    def run(self, page: str, *flags: str, fragment: str = "") -> str:
        """Load a page; return its document as it is when the page says that it is ready."""
        with self._loaded(page, flags, fragment) as (_, document):
            return document

    def probe(self, page: str, script: str, *flags: str, fragment: str = "") -> Any:
        """Load a page and run a script in it; return what the script returns."""
        with self._loaded(page, flags, fragment) as (chromium, _):
            return chromium.evaluate(PROBE.replace("PROBED", script))

    def print(self, page: str) -> bytes:
        """Load a page and print it; return the PDF."""
        with self._loaded(page, (), "") as (chromium, _):
            return base64.b64decode(chromium.call("Page.printToPDF")["data"])

    @contextmanager
    def _loaded(self, page: str, flags: tuple[str, ...], fragment: str) -> Iterator[tuple["_Chromium", str]]:
        path = self._directory / "page.html"
        path.write_text(page, encoding="utf-8")
        chromium = _Chromium(self._directory / "profile", flags)
        try:
            chromium.open(f"file://{path}{fragment}")
            yield chromium, chromium.evaluate(READY)
        finally:
            chromium.close()
            self.said += chromium.said


class _Chromium:
    """A process of Chromium with one page open."""

    def __init__(self, profile: Path, flags: tuple[str, ...]) -> None:
        assert CHROMIUM is not None
        (theirs_in, self._to), (self._from, theirs_out) = _pipe(), _pipe()
        self.said: list[str] = []
        self._session: dict[str, str] = {}
        self._loaded: set[str] = set()
        self._number = 0
        self._unread = b""
        command = [CHROMIUM, "--headless", "--disable-gpu", f"--user-data-dir={profile}"]
        command += ["--remote-debugging-pipe", *flags, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        script = f'exec 3<&{theirs_in} 4>&{theirs_out} {theirs_in}<&- {theirs_out}>&-; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs_in, theirs_out),
        )
        os.close(theirs_in)
        os.close(theirs_out)

    def open(self, address: str) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")
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
        self._number += 1
        said = {"id": self._number, "method": method, "params": parameters} | self._session
        os.write(self._to, json.dumps(said).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            pass
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            assert select([self._from], [], [], PATIENCE_S)[0], f"Chromium hangs; its console: {self.said}"
            read = os.read(self._from, 1 << 20)
            assert read, f"Chromium has ended; its console: {self.said}"
            self._unread += read
        first, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
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
