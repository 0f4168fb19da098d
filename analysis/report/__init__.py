"""Pages: rows in, HTML out. No DataFrame comes here."""
