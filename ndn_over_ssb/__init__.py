"""NDN over SSB: the thought experiment of seed 002, section 4.4, as programs (docs/ndn-over-ssb.md)."""
