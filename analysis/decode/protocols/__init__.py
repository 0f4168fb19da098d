"""Protocol declarations, one module each, and their registry."""
