"""Scenarios: files, their meaning, and the derived workload and timeline."""
