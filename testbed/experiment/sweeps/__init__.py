"""Sweeps of scenarios: many runs that differ in parameters or seeds, and their directory."""
