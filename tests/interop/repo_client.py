"""Puts a file into a repo and gets it back, by ndn-python-repo's own clients: FILE REPO NAME COPY."""

import asyncio
import sys

from ndn.app import NDNApp
from ndn.encoding import Name
from ndn_python_repo.clients import GetfileClient, PutfileClient

app = NDNApp()


async def main() -> None:
    path, repo, stored, copy = sys.argv[1:]
    name = Name.from_str(stored)
    client = PutfileClient(app=app, prefix=Name.from_str("/example/putter"), repo_name=Name.from_str(repo))
    count = await client.insert_file(path, name, 4000, 10_000, 1)
    print(f"inserted {count}")
    await asyncio.sleep(0.1)
    await GetfileClient(app, Name.from_str(repo)).fetch_file(name, copy)
    app.shutdown()


if __name__ == "__main__":
    app.run_forever(after_start=main())
