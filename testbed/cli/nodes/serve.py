"""`feednet serve`: a directory of files as an NDN producer."""

import asyncio
import contextlib
import sqlite3
from functools import partial
from pathlib import Path

import click

from testbed.errors import UserError


@click.command()
@click.argument("prefix")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--sign", "identity", metavar="IDENTITY", help="Sign with this identity's key in NDN's keychain."
)
def serve(prefix: str, directory: Path, identity: str | None) -> None:
    """Serve the files in DIRECTORY under the name PREFIX, to NDN's usual programs.

    Connects to the local forwarder as these do. Without --sign, Data carry a digest only, which does not
    prove who made them.
    """
    from ndn.client_conf import default_keychain, read_client_conf
    from ndn.encoding import MetaInfo, Name, make_data
    from ndn.security import DigestSha256Signer

    from feednet.attachment import Attachment
    from feednet.files import Files
    from forwarder.wire.name import from_uri, to_uri

    try:
        name = from_uri(prefix)
    except ValueError as error:
        raise UserError(f"PREFIX: {error}") from None
    signer = DigestSha256Signer()
    if identity is not None:
        conf = read_client_conf()
        try:
            location = conf["pib"].partition(":")[2]
            if not location or not Path(location, "pib.db").is_file():  # python-ndn would create an empty one
                raise FileNotFoundError
            signer = default_keychain(conf["pib"], conf["tpm"]).get_signer({"identity": identity})
        except (KeyError, ValueError, OSError, sqlite3.Error):
            raise UserError(f"--sign {identity}: NDN's keychain has no key of that identity") from None

    def sign(data: bytes, content: bytes, freshness_ms: int, last: bytes) -> bytes:
        meta = MetaInfo(freshness_period=freshness_ms, final_block_id=last)
        return bytes(make_data(Name.from_str(to_uri(data)), meta, content, signer))

    files = Files(name, directory, sign)
    prefixes = frozenset((name,))
    attachment = Attachment(files, lambda: prefixes, lambda: None, partial(click.echo, err=True))
    click.echo(f"serving {directory} as {to_uri(name)}")
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        try:
            asyncio.run(attachment.run())
        except OSError as error:
            raise UserError(f"no NDN forwarder: {error}; start one: feednet forward") from None
        raise UserError("the NDN forwarder has closed the connection")
