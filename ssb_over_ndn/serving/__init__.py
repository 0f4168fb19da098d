"""The publishing end of a feed."""
