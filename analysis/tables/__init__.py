"""Tables of each stage of an analysis, derived from packets and events."""
