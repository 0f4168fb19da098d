"""Use of an invite: a short conversation with the peer that issued it, as its guest."""

import os
import socket

from ssb.keys import Identity, parse_feed
from ssb.transport.address import Invite
from ssb.transport.calls import Answered, Calls, Finished
from ssb.transport.handshake import MAIN_NETWORK, ClientHandshake
from ssb.transport.muxrpc import ProtocolError
from ssb.transport.secure_stream import ChannelError, SecureStream

_PATIENCE_S = 10.0


class GuestError(ValueError):
    """The invite could not be used; the message has the reason, in one line."""


def use_invite(invite: Invite, feed: str, network: bytes = MAIN_NETWORK) -> None:
    """Request the issuer of an invite to follow a feed; raise GuestError."""
    host, port, pub = invite.address
    guest = Identity.from_seed(invite.seed)
    channel = SecureStream(ClientHandshake(guest, parse_feed(pub), network, os.urandom(32)))
    calls = Calls()
    calls.call(("invite", "use"), [{"feed": feed}], "async")
    try:
        with socket.create_connection((host, port), timeout=_PATIENCE_S) as stream:
            while True:
                if channel.remote is not None:
                    channel.send(calls.take_output())
                stream.sendall(channel.take_output())
                data = stream.recv(1 << 16)
                if not data:
                    raise GuestError(f"{host}:{port} has closed the connection: the invite may be used up")
                for event in calls.receive(channel.receive(data)):
                    if isinstance(event, Finished):
                        raise GuestError(f"{host}:{port} says: {event.error}")
                    if isinstance(event, Answered):
                        return
    except (ChannelError, ProtocolError) as error:
        raise GuestError(f"{host}:{port}: {error}") from None
    except OSError as error:
        raise GuestError(f"{host}:{port}: {error.strerror or error}") from None
