"""Growing captures: counts, PITs and feeds so far."""
