"""Growth of the cost of deadlines and lookups: `python -m testbed.bench.growth`."""
