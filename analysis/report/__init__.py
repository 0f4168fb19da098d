"""Pages: rows in, HTML out, without DataFrames."""
