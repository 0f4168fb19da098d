"""Make the pictures of the README: `make pictures`. Needs Chromium.

Each is a page of a run as the README's commands make it, less all but some sections.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
WIDTH = 1150

PICTURES = {
    "report.png": ("lossy/report.html", ("Network and its load", "An item’s journey"), 1430),
    "capture.png": ("captures/report.html", ("Findings", "Who talks to whom"), 1340),
}
"""Page, the headings of the sections that are shown, and the height, pixels."""

_SHOW = """<script>
for (const part of document.querySelectorAll("header, nav, main > section"))
  if (!SHOWN.includes(part.querySelector("h2")?.firstChild.textContent.trim())) part.style.display = "none";
</script>"""


def main() -> None:
    """Run the commands, and write the pictures."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("pictures are made by Chromium: install it (Debian: apt install chromium)")
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        captures = [f"{layering}={home}/lossy/{layering}/capture.pcapng" for layering in ("poll", "lli")]
        for command in (
            ["run", "fanout", "--loss", "2", "--net", "emulated", "--out", f"{home}/lossy"],
            ["analyze", *captures, "--out", f"{home}/captures"],
        ):
            subprocess.run([sys.executable, "-m", "testbed.cli", *command], check=True)
        for name, (page, headings, height) in PICTURES.items():
            shown = home / page
            text = shown.read_text(encoding="utf-8")
            hiding = _SHOW.replace("SHOWN", json.dumps(headings))
            shown.write_text(text.replace("</body>", f"{hiding}</body>"), encoding="utf-8")
            options = ("--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=20000")
            options += (f"--user-data-dir={home}/chromium", f"--window-size={WIDTH},{height}")
            picture = f"--screenshot={DOCS / name}"
            subprocess.run([chromium, *options, picture, shown.as_uri()], check=True, capture_output=True)
            print(DOCS / name)


if __name__ == "__main__":
    main()
