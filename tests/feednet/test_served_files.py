"""Files that are served by NDN's naming conventions: to Interests, and to python-ndn's catchunks."""

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from daemon_process import running
from patience import PATIENCE_S

from feednet.files import SEGMENT_BYTES, Files
from forwarder.wire.lp import parse_lp
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import Data, make_data, make_interest, parse_data, parse_interest, read_name

PREFIX = from_uri("/net/files")


def sign(name: bytes, content: bytes, freshness_ms: int, last: bytes) -> bytes:
    return make_data(name, content, freshness_ms=freshness_ms, final_block=last)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "files"
    (path / "sub").mkdir(parents=True)
    (path / "photo.jpg").write_bytes(Random(1).randbytes(3 * SEGMENT_BYTES + 5))
    (path / "sub" / "empty").touch()
    (path / ".hidden").write_text("secret")
    (tmp_path / "outside").write_text("secret")
    (path / "link").symlink_to(tmp_path / "outside")
    (path / "shown").symlink_to(path / ".hidden")
    (path / "circle").symlink_to(path / "circle")
    (path / "old").touch()
    os.utime(path / "old", (-5, -5))
    return path


def ask(files: Files, uri: str, *, prefix: bool = False) -> Data | None:
    interest = make_interest(from_uri(uri), nonce=1, lifetime_ms=1000, can_be_prefix=prefix)
    data = files.answer(parse_interest(interest))
    return None if data is None else parse_data(data)


def test_segments_make_up_the_file(directory: Path) -> None:
    files = Files(PREFIX, directory, sign)
    first = ask(files, "/net/files/photo.jpg", prefix=True)
    assert first is not None
    stem, _, zero = to_uri(first.name).rpartition("/")
    assert zero == "seg=0"
    assert to_uri(first.final_block) == "/seg=3"
    segments = [ask(files, f"{stem}/seg={number}") for number in range(4)]
    assert b"".join(each.content for each in segments if each) == (directory / "photo.jpg").read_bytes()
    assert ask(files, f"{stem}/seg=4") is None


def test_metadata_tell_the_version(directory: Path) -> None:
    files = Files(PREFIX, directory, sign)
    told = ask(files, "/net/files/sub/empty/32=metadata", prefix=True)
    assert told is not None
    versioned = to_uri(read_name(b"\x05" + bytes((len(told.content),)) + told.content))
    segment = ask(files, f"{versioned}/seg=0")
    assert segment is not None
    assert segment.content == b""


def test_a_changed_file_has_another_version(directory: Path) -> None:
    files = Files(PREFIX, directory, sign)
    first = ask(files, "/net/files/photo.jpg", prefix=True)
    assert first is not None
    os.utime(directory / "photo.jpg", (1, 1))
    assert ask(files, to_uri(first.name)) is None
    second = ask(files, "/net/files/photo.jpg", prefix=True)
    assert second is not None
    assert "/v=1000000/" in to_uri(second.name)


@pytest.mark.parametrize(
    "uri",
    [
        "/net/files/nothing",
        "/net/files",
        "/net/files/sub",
        "/net/files/.hidden",
        "/net/files/..%2Foutside",
        "/net/files/sub/%00",
        "/net/files/link",
        "/net/files/shown",
        "/net/files/circle",
        "/net/files/old",
        "/net/files/%FF",
        "/net/files/...../outside",
        "/elsewhere/photo.jpg",
        "/net/files/photo.jpg/seg=0/photo.jpg",
    ],
)
def test_nothing_else_is_served(directory: Path, uri: str) -> None:
    files = Files(PREFIX, directory, sign)
    assert ask(files, uri, prefix=True) is None
    assert ask(files, f"{uri}/32=metadata", prefix=True) is None
    files.receive(make_interest(from_uri(uri), nonce=1, lifetime_ms=1000), 0)
    (nack,) = files.take_outputs()
    assert parse_lp(nack).nack_reason is not None


def test_catchunks_fetches_a_file(directory: Path, tmp_path: Path) -> None:
    with running(tmp_path) as forwarder:
        env = os.environ | {"NDN_CLIENT_TRANSPORT": f"unix://{forwarder.path}"}
        command = [sys.executable, "-m", "testbed.cli", "serve", "/net/files", str(directory)]
        copy = tmp_path / "copy"
        fetch = [
            str(Path(sys.executable).with_name("pyndntools")),
            "catchunks",
            "-o",
            str(copy),
        ]
        with subprocess.Popen(command, env=env) as producer:
            try:
                end = time.monotonic() + PATIENCE_S
                while not copy.exists() or not copy.stat().st_size:
                    assert time.monotonic() < end, "the prefix is not registered"
                    subprocess.run(
                        [*fetch, "/net/files/photo.jpg/32=metadata"], env=env, check=False, timeout=PATIENCE_S
                    )
            finally:
                producer.terminate()
        assert copy.read_bytes() == (directory / "photo.jpg").read_bytes()


def test_bad_input_is_one_line(directory: Path, tmp_path: Path) -> None:
    env = os.environ | {"NDN_CLIENT_TRANSPORT": f"unix://{tmp_path}/none", "HOME": str(tmp_path)}
    for words in (["net%"], ["/net", "--sign", "/nobody"], ["/net"]):
        prefix, *rest = words
        ended = subprocess.run(
            [sys.executable, "-m", "testbed.cli", "serve", prefix, str(directory), *rest],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 1
        assert len(ended.stderr.splitlines()) == 1, ended.stderr
