"""The Pending Interest Tables of all nodes, derived from the packets at their interfaces.

analysis.pit.model has the rules, analysis.pit.windows processes captures of any size from Parquet to Parquet.
"""
