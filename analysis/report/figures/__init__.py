"""Figures of the pages, as plain-data Plotly figures."""
