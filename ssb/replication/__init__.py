"""Protocols that replicate feeds between peers, over any stream; sans-IO."""
