"""Scenarios, workloads, running them, and the command line."""
