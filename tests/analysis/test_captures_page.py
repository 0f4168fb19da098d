"""The stream of a growing capture in docs/captures.md, as it stands there."""

import re
import threading
from pathlib import Path

import pytest
from exchange import A, B, answer, question, write
from processes import ROOT, wait_for
from pyspark.sql import SparkSession

from feednet import streams


@pytest.mark.spark
def test_it_writes_what_is_captured(
    jvm: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "captures.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (code,) = (each for each in blocks if "follow_captures" in each)
    for name in ("trace.pcapng", "checkpoint", "packets"):  # Spark does not follow a change of directory
        assert f'"{name}"' in code
        code = code.replace(f'"{name}"', repr(str(tmp_path / name)))
    write(tmp_path / "trace.pcapng", *[question(A, B, "/b"), answer(B, A, "/b")] * 5)
    monkeypatch.setattr(streams, "spark_session", lambda: jvm)  # a process has one
    thread = threading.Thread(target=exec, args=(code, {}))
    thread.start()
    try:
        written = tmp_path / "packets" / "_spark_metadata" / "0"
        wait_for(lambda: written.exists() or not thread.is_alive(), "a batch")
        (query,) = jvm.streams.active
        query.processAllAvailable()
    finally:
        for query in jvm.streams.active:
            query.stop()
        thread.join()
    kinds = [row.kind for row in jvm.read.parquet(str(tmp_path / "packets")).collect()]
    assert sorted(kinds) == ["data"] * 5 + ["interest"] * 5
