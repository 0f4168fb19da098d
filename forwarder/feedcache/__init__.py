"""The feed-aware cache: items that a forwarder has verified, and the rules by which it accepts them."""
