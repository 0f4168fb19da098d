"""Metrics of one run."""
