"""The report: one page that holds everything it shows."""
from typing import NamedTuple
import pandas as pd
class Tables(NamedTuple):
    comparison: pd.DataFrame
    overhead: pd.DataFrame
    traffic: pd.DataFrame
    latency_by_node: pd.DataFrame
    latency_distribution: pd.DataFrame
    latency_histogram: pd.DataFrame
    pit_summary: pd.DataFrame
    pit_curves: pd.DataFrame
    pit_truth: pd.DataFrame
def write_report(run, tables):
    import pickle
    pickle.dump(tables, open('/tmp/tables.pkl','wb'))
