"""Stories of controlled push: small worlds, networks, and their promises."""
