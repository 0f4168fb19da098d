"""Scenarios, experiments with them, verification, benchmarks, and the command line."""
