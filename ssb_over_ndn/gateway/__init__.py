"""A gateway between Scuttlebutt peers and NDN."""
