"""Scenarios: their files, what these mean, and the workload and the timeline that follow."""
