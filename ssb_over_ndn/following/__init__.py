"""The subscribing end of a feed."""
