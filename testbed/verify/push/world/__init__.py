"""The network of a story of controlled push, and its observers."""
