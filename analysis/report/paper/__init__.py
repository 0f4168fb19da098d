"""What a paper takes from a page: figures at column width as PDF, PNG and SVG, tables as LaTeX and CSV."""
