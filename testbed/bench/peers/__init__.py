"""Benchmarks of Scuttlebutt peers."""
