"""A peer: its connections with others, and the protocols over them."""
