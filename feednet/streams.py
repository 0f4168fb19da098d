"""Streams of packets by Spark, from growing captures.

`from feednet.streams import follow_captures, spark_session`
"""

from feednet import rooms

rooms.check()

from testbed.cli.extras import need  # noqa: E402

need("testbed", by=__name__)

from analysis.spark.capture_source import follow_captures  # noqa: E402
from analysis.spark.session import spark_session  # noqa: E402

__all__ = ["follow_captures", "spark_session"]
