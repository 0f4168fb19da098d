"""Spark and storage: engines, sources, parallel tasks, Parquet."""
