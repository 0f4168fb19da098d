"""`feednet model hashes`: the cost of publishing each message under its hash, too."""

import click

from testbed.cli.console import console, table
from testbed.ladder.hashes import MESSAGES, Way, generated, measure


@click.command()
@click.option("--messages", default=MESSAGES, type=click.IntRange(1, 60_000), help="Messages of the feed.")
def hashes(messages: int) -> None:
    """Publish a feed by number, and by number and hash, to two readers behind one router.

    The first reader asks by number. When it has all, the second one asks as its row says. A hash has no
    location: Interests have the feed as forwarding hint, or the router has a route for each message.

    Figures are bytes of the publisher's Data packets, of its link in both directions and of an Interest of
    the second reader; packets in the router's content store, which has as many bytes as the publisher; and
    the router's routes, with their bytes.
    """
    feed = generated(messages)
    columns = ("second reader", "publisher", "link", "Interest", "stored", "routes", "bytes")
    shown = table(f"{messages:,} messages, read twice", *columns)
    for way in Way:
        cost = measure(feed, way)
        shown.add_row(
            way.value,
            f"{cost.kept:,}",
            f"{cost.upstream:,}",
            f"{cost.interest:,.0f}",
            f"{cost.stored:,}",
            f"{cost.routes:,}",
            f"{cost.route_bytes:,}",
        )
    console.print(shown)
