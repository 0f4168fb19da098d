"""`feednet decrypt`: decrypted streams of a capture, for Wireshark."""

from pathlib import Path

import click

from analysis.report.words.numbers import count_of
from testbed.cli.options import keys_option, read_keys
from testbed.errors import UserError, shown


@click.command()
@click.argument("capture", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@keys_option
def decrypt(capture: Path, out: Path, key_logs: tuple[Path, ...]) -> None:
    """Write the packets in encrypted streams of CAPTURE into the new file OUT, decrypted.

    OUT is a pcapng of Wireshark's exported PDUs, which feednet's plugin reads (`feednet dissect
    --wireshark-plugin`): packets of muxrpc, the protocol of Secure Scuttlebutt's peers.
    """
    from analysis.decode.protocols.protocol import ENCRYPTED, UNREAD
    from analysis.export.plain_packets import write_plain_packets
    from captures.formats.files import secrets_in

    if out.exists():
        raise UserError(f"{shown(str(out))} is there already: remove it, or choose another name")
    written = write_plain_packets(capture, read_keys(key_logs) | secrets_in(capture), out)
    encrypted, unread = written.unread[ENCRYPTED], written.unread[UNREAD]
    if not written.connections:
        raise UserError(f"{shown(str(capture))}: no stream in it is of a protocol that is decrypted here")
    if not written.packets:
        why = (
            f"no key for its {encrypted} encrypted bytes: --keys names a key log"
            if encrypted
            else f"{unread} bytes that cannot be read"
        )
        raise UserError(f"{shown(str(capture))}: nothing to write: {why}")
    counts = ", ".join(f"{count} of {name}" for name, count in written.packets.items())
    click.echo(f"packets  {counts}, in {count_of(written.connections, 'connection')}")
    if encrypted:
        click.echo(f"no key   {encrypted} bytes of streams")
    if unread:
        click.echo(f"unread   {unread} bytes of streams: behind gaps, or cut off")
    for damage in written.damages:
        click.echo(f"damage   from byte {damage.offset} on: {damage.reason}")
    click.echo(f"written  {out}")
