"""Captures to packets: record batches in Arrow, without Spark."""
