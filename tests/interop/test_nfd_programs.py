"""python-ndn's programs, and feeds of our client library, with NFD and `feednet forward` between them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from daemon_process import CONFIG, ROOT, running
from nfd_pair import MTU, Pair, routed
from nfd_process import WHY_NOT, nfd
from patience import PATIENCE_S

pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

EXAMPLES = Path(__file__).parent / "python_ndn"
FEEDS = """
import os, sys
import feednet
from ndn.appv2 import NDNApp

app = NDNApp()
feeds = feednet.Feeds(app)

async def publish():
    feed = await feeds.publish(feednet.Log(sys.argv[2], sys.argv[3]))
    for number in range(1, 41):
        feed.append(b"item %d" % number)
    print(feed.uri, flush=True)

async def follow():
    async with feeds.subscribe(sys.argv[2]) as items:
        async for item in items:
            print(item.seq, item.message, flush=True)
            if item.seq == 40:
                os._exit(0)

app.run_forever(after_start=globals()[sys.argv[1]]())
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("pair")
    (directory / "ours").mkdir()
    with nfd(directory / "nfd", mtu=MTU) as theirs, running(directory / "ours", CONFIG) as ours:
        yield Pair(theirs, ours)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    for arguments in (["init-pib"], ["new-item", "/me"]):
        words = [sys.executable, "-m", "ndn.bin.sec", *arguments]
        subprocess.run(words, env=os.environ | {"HOME": str(path)}, check=True, timeout=PATIENCE_S)
    return path


@contextmanager
def started(home: Path, forwarder: Path, *words: object) -> Iterator["subprocess.Popen[str]"]:
    """A Python program that talks to a forwarder."""
    process = subprocess.Popen(
        [sys.executable, *map(str, words)],
        env=os.environ
        | {"HOME": str(home), "NDN_CLIENT_TRANSPORT": f"unix://{forwarder}"}
        | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)},
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_with(process: "subprocess.Popen[str]", part: str) -> str:
    """Return the first line of output that has something in it."""
    assert process.stdout is not None
    return next(line for line in process.stdout if part in line)


@pytest.mark.parametrize("way", [0, 1], ids=["consumer at NFD", "producer at NFD"])
def test_chunks(pair: Pair, home: Path, way: int) -> None:
    near, far = pair.ways()[way]
    text = "".join(chr(97 + number % 26) for number in range(100_000))
    (home / "file").write_text(text)
    prefix = f"/chunks{way}"
    pair.route(prefix, near)
    with started(home, far, EXAMPLES / "putchunks.py", prefix, home / "file") as producer:
        name = line_with(producer, "under name").partition("under name")[2].split()[0]
        routed(far, name)
        with started(home, near, EXAMPLES / "catchunks.py", name) as consumer:
            assert text in consumer.communicate(timeout=PATIENCE_S)[0]


@pytest.mark.parametrize("way", [0, 1, 2], ids=["reader at NFD", "writer at NFD", "NFD alone"])
def test_feeds(pair: Pair, home: Path, way: int) -> None:
    """Where NFD is on the way they are pulled."""
    near, far = [*pair.ways(), (pair.nfd.path, pair.nfd.path)][way]
    prefix = f"/feed{way}"
    if near != far:
        pair.route(prefix, near)
    (home / "feeds.py").write_text(FEEDS)
    with started(home, far, home / "feeds.py", "publish", home / f"{way}.feed", prefix) as writer:
        uri = line_with(writer, prefix).strip()
        with started(home, near, home / "feeds.py", "follow", uri) as reader:
            output = reader.communicate(timeout=PATIENCE_S)[0]
    assert output.splitlines() == [f"{number} b'item {number}'" for number in range(1, 41)]
