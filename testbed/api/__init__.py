"""Experiments from Python: docs/experiments.md. `feednet` has the public names."""
