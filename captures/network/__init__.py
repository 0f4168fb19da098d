"""Recording: packet rings in network namespaces."""
