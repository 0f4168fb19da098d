"""A log file that cannot be written: lines are lost, which is said once, and the program goes on."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from forwarder.daemon import logs


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield logging.getLogger("feednet")
    for handler in set(root.handlers) - set(before):
        handler.close()
    root.handlers[:], _ = before, root.setLevel(level)


def test_a_full_disk(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("info", logs.LogFile(Path("/dev/full")))
    for number in range(3):
        logger.info("line %d", number)
    told = [line for line in capsys.readouterr().err.splitlines() if "lost" in line]
    assert told == ["feednet: /dev/full: No space left on device; log lines are lost"]
    logs.set_up("info")
    logger.info("without a file")


def test_a_directory_that_goes_and_comes_again(
    logger: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "logs" / "file"
    path.parent.mkdir()
    logs.set_up("info", logs.LogFile(path))
    logger.info("before")
    for round_ in range(2):
        path.parent.rename(tmp_path / f"away{round_}")
        logger.info("lost")
        logger.info("lost, too")
        path.parent.mkdir()
        logger.info("after")
        told = [line for line in capsys.readouterr().err.splitlines() if "lines are lost" in line]
        assert told == [f"feednet: {path}: No such file or directory; log lines are lost"]
        assert re.fullmatch(r"\S+ \S+ INFO after\n", path.read_text())
    assert [(tmp_path / f"away{n}" / "file").read_text()[-7:] for n in (0, 1)] == ["before\n", " after\n"]


def test_a_file_that_another_takes_the_place_of_is_closed(logger: logging.Logger, tmp_path: Path) -> None:
    for number in range(3):
        logs.set_up("warning", logs.LogFile(tmp_path / str(number)))
        logger.info("too low")
        logger.warning("at %d", number)
    files = [each for each in logging.getLogger().handlers if isinstance(each, logs.LogFile)]
    assert [Path(each.baseFilename).name for each in files] == ["2"]
    for number in range(3):
        assert (tmp_path / str(number)).read_text().endswith(f" WARNING at {number}\n")
