"""A program that fills a disk with a store's files and goes on when there is space again; prints how it went.

`limit DIRECTORY`: no file may grow beyond a limit. `disk DIRECTORY`: the file system is full.
`peer DIRECTORY`: it is full, and a user's peer receives messages and a blob meanwhile.
"""

import os
import resource
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from local_peers import LocalPeers

from ssb.keys import Identity
from ssb.message import Message
from ssb.store.blobs import DirectoryBlobs
from ssb.store.feeds import StoreError
from ssb.store.mend import check_chains
from ssb.store.sqlite import SqliteFeeds

LIMIT = 1 << 20
BATCH = 8
POST = {"type": "post", "text": "mine"}


def messages(count):
    author, made = Identity.from_seed(bytes(32)), []
    for number in range(count):
        content = {"type": "post", "text": f"{number:06}" * 1200}
        made.append(Message.create(author, made[-1] if made else None, content, number))
    return made


def complaint(call):
    try:
        call()
    except StoreError as error:
        return str(error)
    raise SystemExit("nothing failed")


def fill(directory, make_space):
    feed, own = messages(600), Identity.from_seed(b"o" * 32)
    with SqliteFeeds(directory / "feeds.db") as store:
        stored = 0

        def append(until):
            nonlocal stored
            while stored < until:
                assert store.append(feed[stored : stored + BATCH], 1) == (BATCH, 0, {})
                stored += BATCH

        store.publish(own, POST, 1)
        complaints = [complaint(lambda: append(600))]
        for _ in range(3):
            complaints.append(complaint(lambda: store.append(feed[stored : stored + BATCH], 1)))
        held = [found.message for found in store.after(feed[0].author, 0, 600)]
        assert held == feed[:stored], (len(held), stored)
        assert store.tips() == {own.ref: 1, feed[0].author: stored}
        with DirectoryBlobs(directory / "blobs") as blobs:
            data = bytes(2 * LIMIT)
            complaints.append(complaint(lambda: blobs.add(data)))
            assert (blobs.used, list((directory / "blobs" / "tmp").iterdir())) == (0, [])
            make_space()
            blobs.read(blobs.add(data))
        full = stored
        append(600)
        store.publish(own, POST, 2)
    with SqliteFeeds(directory / "feeds.db") as store:
        check_chains(store)
        assert store.tips() == {own.ref: 2, feed[0].author: 600}
    print(0 < full < 600, *sorted(set(complaints)), sep="\n")


def replicate(disk, make_space):
    with TemporaryDirectory() as elsewhere:
        (Path(elsewhere) / "ben").symlink_to(disk)
        with LocalPeers(Path(elsewhere), [("ann", "ben")]) as world:
            world.follow("ben", "ann")
            for number in range(600):
                world.say("ann", text=f"{number:06}" * 1200)
            (Path(elsewhere) / "data").write_bytes(bytes(3 << 20))
            blob = world.do("ann", "blobs", "add", arguments=[f"{elsewhere}/data"])
            world.do("ben", "blobs", "want", arguments=[blob])
            world.connect("ben", "ann")
            world.run(70)
            full = world.tip("ben", "ann")
            troubles = world.do("ben", "status")["troubles"]
            make_space()
            world.run(60)
            size = world.do("ben", "blobs", "size", arguments=[blob])
            print(0 < full < 600, world.tip("ben", "ann"), size, any("space" in each for each in troubles))
            check_chains(world.accounts["ben"].feeds)


def main():
    how, directory = sys.argv[1], Path(sys.argv[2])
    if how == "limit":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
        fill(directory, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)))
    else:
        ballast = directory / "ballast"
        ballast.write_bytes(bytes(30 << 20))
        (fill if how == "disk" else replicate)(directory, lambda: os.remove(ballast))


if __name__ == "__main__":
    main()
