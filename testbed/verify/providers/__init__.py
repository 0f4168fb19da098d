"""Stories of customers, forwarding providers and repositories: NDN over SSB under every fault."""
