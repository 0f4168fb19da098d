"""Metrics of third-party captures."""
