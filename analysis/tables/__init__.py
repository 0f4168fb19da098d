"""The tables of each stage of an analysis, and how they follow from packets and events."""
