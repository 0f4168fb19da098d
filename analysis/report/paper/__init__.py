"""Exports for papers: figures at column width as PDF, PNG and SVG, tables as LaTeX and CSV."""
