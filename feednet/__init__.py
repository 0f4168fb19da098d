"""Feeds for python-ndn applications: subscribe as an async iterator, publish by appending.

    app = NDNApp()
    feeds = feednet.Feeds(app)

    async def main():
        async for item in feeds.subscribe("/unibas/camera/%0B..."):
            print(item.seq, item.message)

    app.run_forever(after_start=main())

Everything goes over the application's own face. With a forwarder that knows long-lived Interests, items are
pushed as they come; over one that does not (NFD) the same calls pull them.
"""

from feednet.client import Feed, Feeds, Forked, Subscription
from feednet.log import BadLog, Log
from forwarder.feedcache.items import Item

__all__ = ["BadLog", "Feed", "Feeds", "Forked", "Item", "Log", "Subscription"]
