"""Pipelines: the steps in order, from captures to tables and pages."""
