"""The page of growing captures: its target, its updates, and its server."""
