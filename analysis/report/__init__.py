"""Pages: rows in, HTML out, without Spark."""
