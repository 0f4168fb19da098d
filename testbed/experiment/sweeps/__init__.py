"""Sweeps of scenarios: many runs that differ in parameters or seeds, their directory, and workers."""
