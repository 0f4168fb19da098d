"""Metrics of captures from anywhere."""
