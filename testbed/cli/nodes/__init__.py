"""Commands that run a node on real interfaces, or talk to one that runs."""
