"""How long tests wait for what must come: longer than it takes on any machine. It is for what hangs."""

PATIENCE_S = 900.0
