"""Frames, streams and framing: the way from link types to NDN packets."""
