"""What `feednet new` writes of a layering, strategy, metric or figure, with `mine` for its name.

testbed.cli.runs.new puts in the name, the kind and the module; else these are real code, checked as all is.
"""
