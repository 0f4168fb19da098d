"""Use of an invite over a socket."""

import os
import socket

from ssb.peer.access import InvalidInvite
from ssb.peer.invites import Guest
from ssb.transport.address import Invite
from ssb.transport.handshake import MAIN_NETWORK
from ssb.transport.muxrpc import ProtocolError
from ssb.transport.secure_stream import ChannelError

_PATIENCE_S = 10.0


class GuestError(ValueError):
    """The invite could not be used; the message has the reason, in one line."""


def use_invite(invite: Invite, feed: str) -> None:
    """Request the issuer of an invite to follow a feed; raise GuestError."""
    host, port, _ = invite.address
    guest = Guest(invite, feed, os.urandom(32), MAIN_NETWORK)
    try:
        with socket.create_connection((host, port), timeout=_PATIENCE_S) as stream:
            while True:
                stream.sendall(guest.take_output())
                data = stream.recv(1 << 16)
                if not data:
                    raise GuestError(f"{host}:{port} has closed the connection: the invite may be used up")
                if guest.receive(data):
                    return
    except InvalidInvite as error:
        raise GuestError(f"{host}:{port} says: {error}") from None
    except (ChannelError, ProtocolError) as error:
        raise GuestError(f"{host}:{port}: {error}") from None
    except OSError as error:
        raise GuestError(f"{host}:{port}: {error.strerror or error}") from None
