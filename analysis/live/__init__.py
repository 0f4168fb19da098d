"""What growing captures have come to by now."""
