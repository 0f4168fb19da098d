"""Protocols by which peers bring each other's feeds up to date, over any stream; sans-IO."""
