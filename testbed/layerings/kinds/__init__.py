"""The kinds of layerings: over NDN, over Scuttlebutt, and both."""
