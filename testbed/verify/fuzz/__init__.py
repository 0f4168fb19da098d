"""Coverage-guided fuzzing: whatever the bytes, a packet or a counted drop, and nothing else.

`targets` names what is fuzzed: the codec (`wire`, held against the plain reading of `reading`), a whole node
with state in it (`node`), the management protocol (`management`), a Scuttlebutt peer (`ssb`), a provider of
tinySSB feeds (`tiny`), the way from a capture to the table of its
packets (`captures`; `pages` takes damaged captures through all of `feednet analyze`). Inputs are changed as
TLV by `testbed.verify.mutations`; `engine` joins a target with Atheris (libFuzzer), `minimise` shrinks its
findings, and `bugs` are those that it must find. `python -m testbed.verify.fuzz --help`.
"""
