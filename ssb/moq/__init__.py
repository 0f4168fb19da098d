"""Scuttlebutt's feeds by relays of Media over QUIC (draft-ietf-moq-transport-14), as far as feeds need it.

QUIC's streams are carried by TCP as QMux has it (draft-ietf-quic-qmux-01), for the emulator has no QUIC. Both
sides grant streams and bytes without a limit, for TCP's window limits the connection.

- :mod:`~ssb.moq.fields`: variable-length integers, and errors;
- :mod:`~ssb.moq.frames`: records and frames of QMux;
- :mod:`~ssb.moq.messages`: control messages;
- :mod:`~ssb.moq.incoming`: one direction of a connection, read;
- :mod:`~ssb.moq.session`: a session of two relays;
- :mod:`~ssb.moq.hops`: a relay's sessions;
- :mod:`~ssb.moq.followed`: who reads a track, and where it comes from;
- :mod:`~ssb.moq.relay`: a relay, with its subscriptions and its cache;
- :mod:`~ssb.moq.tracks`: a track for each feed.
"""
