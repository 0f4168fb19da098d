"""The order of the steps, from captures to tables and pages: nothing else orders them."""
