"""Commands about scenarios, their networks, and their runs."""
