"""Benchmarks of runs and of their analysis."""
