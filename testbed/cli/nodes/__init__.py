"""Commands that run a node on real interfaces, or query a running one."""
