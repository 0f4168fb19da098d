"""Measure the claims of the tinyISP paper: `python -m testbed.bench.tiny`."""
