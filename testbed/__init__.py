"""Scenarios, experiments with them, verification, benchmarks, and the command line."""

from base import compiled

compiled.use()
