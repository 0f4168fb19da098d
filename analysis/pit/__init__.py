"""The Pending Interest Tables of all nodes, told from the packets at their interfaces.

analysis.pit.model has the rules; tables computes with Spark what is known of runs, files takes captures of
any size from Parquet to Parquet.
"""
