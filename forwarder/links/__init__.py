"""The link service of a face: NDNLPv2 fragmentation, reliability and congestion marks."""
