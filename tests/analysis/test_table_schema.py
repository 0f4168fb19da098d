"""Tables have exactly the columns that docs/tables.md gives, and what others read is what was written."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.tables.schema import CONNECTIONS, TABLES, document


def columns(path, partitions):
    """Return the names and types of a table's columns, those that directories stand for without type."""
    schema = pq.read_table(path).schema
    return {field.name: None if field.name in partitions else field.type for field in schema}


def documented(table, partitions):
    return {
        partitions.get(field.name, field.name): None if field.name in partitions else field.type
        for field in table.arrow
    }


def test_the_document_is_up_to_date():
    written = Path(__file__).parents[2] / "docs" / "tables.md"
    assert written.read_text(encoding="utf-8") == document()


@pytest.mark.spark
def test_tables_of_a_run_are_as_documented(spark, tmp_path):
    from handmade import write_run

    from analysis.pipelines.run import analyze

    write_run(tmp_path)
    analyze(tmp_path, all_tables=True)
    for table in TABLES:
        path = tmp_path / "tables" / f"{table.name}.parquet"
        partitions = {} if path.is_file() else {"layering": "layering"}
        assert columns(path, partitions) == documented(table, partitions), table.name
        # It has no TCP.
        assert (len(pq.read_table(path)) > 0) == (table is not CONNECTIONS), table.name
