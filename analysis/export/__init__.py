"""A run in other people's formats, and as plain text."""
