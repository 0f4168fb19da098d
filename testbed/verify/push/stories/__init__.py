"""Stories of controlled push: small worlds, networks, and what is promised of them."""
