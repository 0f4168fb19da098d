"""A peer: its connections with others, and what goes over them."""
