"""The network that a story of controlled push is played in, and its observers."""
