"""Sync protocols: members of a group tell each other what each has."""
