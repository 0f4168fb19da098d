"""Studies: many runs of several scenarios, and the claims that they decide."""
