"""Make the pictures of the documents: `make pictures`. Needs Chromium.

Two are some sections of pages, as the commands beside them in the documents make them. docs/library.md has
one of each scenario's report: the answer to its question, and latencies. The names of scenarios as arguments
make theirs only.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PIL import Image

from testbed.library import scenarios
from testbed.scenario.reader import load

DOCS = Path(__file__).parent
WIDTH = 1150

PICTURES = {
    "report.png": ("lossy/report.html", ("Network and its load", "An item’s journey"), 1430),
    "capture.png": ("captures/report.html", ("Findings", "Who talks to whom"), 1340),
}
"""Page, the headings or classes of the sections that are shown, and the height, pixels."""

OF_SCENARIOS = DOCS / "scenarios"
_SECTIONS = ("answer", "Latency")
_THUMBNAIL = 456
"""Width of the picture, pixels."""
_PAGE, _LABELS, _LAYERING = 760, 160, 95
"""Least width of the page, and the widths of its axes' labels and of a layering's column, pixels."""

_SHOW = """<style>.modebar, main button { display: none } body { padding-top: 0 }</style>
<script>
for (const part of document.querySelectorAll("header, nav, main > :is(section, details)")) {
  const heading = part.querySelector("h2")?.firstChild.textContent.trim();
  if (!SHOWN.includes(heading) && !SHOWN.includes(part.className)) part.style.display = "none";
  else if (part.matches("details")) part.open = true;
}
</script>"""


def main(names: Sequence[str]) -> None:
    """Run the commands, and write the pictures."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("pictures are made by Chromium: install it (Debian: apt install chromium)")
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        draw = partial(_draw, chromium, home)
        if not names:
            captures = [f"{layering}={home}/lossy/{layering}/capture.pcapng" for layering in ("poll", "lli")]
            _feednet("run", "fanout", "--loss", "2", "--net", "emulated", "--out", f"{home}/lossy")
            _feednet("analyze", *captures, "--out", f"{home}/captures")
            for name, (page, headings, height) in PICTURES.items():
                draw(home / page, headings, (WIDTH, height, 1), DOCS / name)
        for name in names or scenarios():
            _feednet("run", name, "--net", "emulated", "--out", f"{home}/{name}")
            width = max(_PAGE, _LABELS + _LAYERING * len(load(name).layerings))
            size = (width, 900 + 2 * width // 3, _THUMBNAIL / width)
            draw(home / name / "report.html", _SECTIONS, size, OF_SCENARIOS / f"{name}.png")
            shutil.rmtree(home / name)


def _feednet(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "feednet", *words], check=True)


def _draw(
    chromium: str, home: Path, page: Path, headings: Sequence[str], size: tuple[int, int, float], to: Path
) -> None:
    """Take a picture of some sections of a page, with as few colours as it needs."""
    width, height, scale = size
    text = page.read_text(encoding="utf-8")
    hiding = _SHOW.replace("SHOWN", json.dumps(headings))
    page.write_text(text.replace("</body>", f"{hiding}</body>"), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=20000"]
    options += [f"--user-data-dir={home}/chromium", f"--window-size={width},{height}"]
    options += [f"--force-device-scale-factor={scale}", f"--screenshot={to}"]
    to.parent.mkdir(exist_ok=True)
    subprocess.run([chromium, *options, page.as_uri()], check=True, capture_output=True)
    if scale < 1:
        with Image.open(to) as picture:
            few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(to, optimize=True)
    print(to)


if __name__ == "__main__":
    main(sys.argv[1:])
