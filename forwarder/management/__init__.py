"""The NFD management protocol, so that programs made for NFD find here what they ask for.

`manager` is the application that answers; `commands` parses command Interests, `authorisation` and `keys`
check their signers; `module` defines modules, and `routes`, `faces`, `store`, `strategies`, `status` are
those of NFD; `parameters`, `publisher` and `announcement` are formats.
"""
