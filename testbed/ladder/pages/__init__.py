"""Pages of the models: their formulas and simulations, drawn in the frame of analysis.report."""
