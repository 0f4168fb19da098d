"""Options that several commands have."""

import click

_ENGINES = ("auto", "spark", "sail")

engine_option = click.option(
    "--engine",
    type=click.Choice(_ENGINES),
    default="auto",
    show_default=True,
    help="What analyses captures: Spark, or Sail (pip install 'feednet[sail]'), which takes seconds where"
    " Spark takes half a minute; auto: Sail if it is installed and captures are small, and without --master.",
)

all_tables_option = click.option(
    "--all-tables",
    is_flag=True,
    help="Write the tables that the report does not show, too: transactions, entries and occupancy of PITs,"
    " progress of feeds, events.",
)
