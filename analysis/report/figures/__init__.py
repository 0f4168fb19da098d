"""The figures of the pages, as Plotly figures in plain data."""
