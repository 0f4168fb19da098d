"""The page of captures that still grow: the run or captures that it shows, its news, and its server."""
