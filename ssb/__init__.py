"""Secure Scuttlebutt: identities, classic messages, stores of feeds, and views computed from them.

From the ground up: `keys` (identities and references), `canonical` (the JSON that is signed), `message` (one
signed entry and its rules), `export` (feeds in a file), `store` (messages and blobs on disk), `graph`
(follows and blocks), `applications` (state computed from messages), `generate` (synthetic feeds that resemble
a real one).

Not here: other feed formats.
"""
