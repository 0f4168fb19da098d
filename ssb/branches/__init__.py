"""Forked feeds that are merged: the branches of a feed, a store of them, and their replication."""
