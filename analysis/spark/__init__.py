"""Engines, sources, parallel tasks and Parquet: whatever the analysis needs of Spark."""
