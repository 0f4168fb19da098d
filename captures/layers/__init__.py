"""Frames, streams and framing: from link types to NDN packets."""
