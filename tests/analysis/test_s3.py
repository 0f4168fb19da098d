"""Tables in an object store: engines write packets to s3a:// URLs of a server on loopback, moto's.

Sail has a client of its own. Spark's is not among the jars of PySpark: it takes those that the variable
FEEDNET_S3A_JARS names (docs/cluster.md says where they are to be had).
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest
from handmade import lli, poll, write_capture
from patience import PATIENCE_S
from pyarrow.fs import S3FileSystem

from analysis.decode.reader import ReadStatistics, plain, read_packets
from analysis.decode.reading import Reading
from base.sockets import free_port
from captures.formats.files import cut

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}

BY_SAIL = """
import sys
from analysis.spark.engine import EngineChoice, session

spark = session(EngineChoice("sail"))
"""

BY_SPARK = """
import os, sys
from pyspark.sql import SparkSession

os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
settings = {
    "endpoint": os.environ["AWS_ENDPOINT"],
    "access.key": os.environ["AWS_ACCESS_KEY_ID"],
    "secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
    "path.style.access": "true",
    "connection.ssl.enabled": "false",
}
# Hadoop 3.4 and later write these with units, and name providers that older clients do not have.
settings |= {
    "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "threads.keepalivetime": "60",
    "connection.establish.timeout": "30000",
    "connection.timeout": "200000",
    "multipart.purge.age": "86400",
}
builder = SparkSession.builder.master("local[2,4]").config("spark.jars", os.environ["FEEDNET_S3A_JARS"])
for name, value in settings.items():
    builder = builder.config(f"spark.hadoop.fs.s3a.{name}", value)
builder = builder.config("spark.sql.python.filterPushdown.enabled", "true")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
"""

WRITE = """
import os
from analysis.spark.batch_reader import readings
from analysis.spark.capture_source import read_captures

def once(batches):
    # One task fails after its first rows, and is done again.
    for batch in batches:
        yield batch
        if fails:
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            raise RuntimeError("done again")

mark = sys.argv[1]
fails = mark != "-"
paths = dict(each.split("=") for each in sys.argv[2:])
packets = read_captures(spark, readings(paths, 2))
if fails:
    packets = packets.mapInArrow(once, packets.schema)
for _ in range(2):  # the second one replaces the first
    writer = packets.write.mode("overwrite").partitionBy("layering", "node")
    writer.parquet("s3a://bucket/packets")
print(spark.read.parquet("s3a://bucket/packets").count())
"""


@pytest.fixture
def store():
    """Run the server; yield its address, and its only bucket as a file system."""
    pytest.importorskip("moto", reason="no S3 server here: pip install 'moto[s3]' flask flask-cors")
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address, give_up = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE_S
        while True:
            try:
                urlopen(f"{address}/moto-api/").close()
                break
            except URLError:
                assert server.poll() is None
                assert time.monotonic() < give_up
                time.sleep(0.2)
        files = S3FileSystem(
            access_key=KEYS["AWS_ACCESS_KEY_ID"],
            secret_key=KEYS["AWS_SECRET_ACCESS_KEY"],
            region=KEYS["AWS_REGION"],
            endpoint_override=address,
            allow_bucket_creation=True,
        )
        files.create_dir("bucket")
        yield address, files
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def captures(tmp_path):
    for name, story in {"poll": poll(), "lli": lli()}.items():
        write_capture(tmp_path / name, story)
    return {name: tmp_path / name for name in ("poll", "lli")}


def rows(captures):
    """Return the rows that the decoder makes, in order."""
    found = [
        row
        for name, path in captures.items()
        for piece in cut(path)
        for batch in read_packets(Reading(name, piece, "interface"), ReadStatistics())
        for row in plain(batch).to_pylist()
    ]
    return sorted(found, key=order)


def order(row):
    return row["layering"], row["frame"]


def written_by(script, address, captures, mark="-"):
    """Run a script that writes the packets of captures; return how many it finds there."""
    variables = {"AWS_ENDPOINT": address, "AWS_ALLOW_HTTP": "true", "PYTHONPATH": str(ROOT)}
    variables |= {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", script + WRITE, mark, *(f"{name}={path}" for name, path in captures.items())],
        env=os.environ | KEYS | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return int(done.stdout.split()[-1])


def read(files, schema):
    """Return the rows in the store, by a reader that is neither engine."""
    table = pq.read_table("bucket/packets", filesystem=files, partitioning="hive")
    found = [{name: row[name] for name in schema} for row in table.to_pylist()]
    return sorted(found, key=order)


def test_sail_writes_to_an_object_store(store, captures):
    address, files = store
    expected = rows(captures)
    assert written_by(BY_SAIL, address, captures) == len(expected)
    assert read(files, expected[0]) == expected


@pytest.mark.skipif("FEEDNET_S3A_JARS" not in os.environ, reason="FEEDNET_S3A_JARS does not name S3A's jars")
def test_spark_writes_to_an_object_store_and_a_task_that_is_done_again_writes_once(store, captures, tmp_path):
    address, files = store
    expected = rows(captures)
    assert written_by(BY_SPARK, address, captures, str(tmp_path / "mark")) == len(expected)
    assert (tmp_path / "mark").exists()
    assert read(files, expected[0]) == expected
