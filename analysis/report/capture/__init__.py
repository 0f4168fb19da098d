"""The page of `feednet analyze`: analysis.report.capture.page writes it."""
