"""Metrics: what the tables of a run add up to."""
