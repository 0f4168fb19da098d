"""Metrics of one run, of several runs, or of captures, computed from their tables."""
