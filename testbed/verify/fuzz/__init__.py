"""Coverage-guided fuzzing: any bytes must give a packet or a counted drop.

`targets` lists the subjects: the codec (`wire`, compared with the plain reading of `reading`), a whole node
with state (`node`), the management protocol (`management`), a Scuttlebutt peer (`ssb`), a provider of tinySSB
feeds (`tiny`), and capture decoding (`captures`; `pages` runs damaged captures through all of `feednet
analyze`). `testbed.verify.mutations` mutates inputs as TLV; `engine` runs a target under Atheris (libFuzzer),
`minimise` shrinks failing inputs, and `bugs` are deliberate bugs that it must find. `python -m
testbed.verify.fuzz --help`.
"""
