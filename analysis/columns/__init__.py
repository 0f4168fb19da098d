"""Columns of Arrow tables: values, quantiles, samples and slices of time."""
