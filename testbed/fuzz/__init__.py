"""Coverage-guided fuzzing: whatever the bytes, a packet or a counted drop, and nothing else.

`targets` names what is fuzzed: the codec (`wire`, held against the plain reading of `reading`), a whole node
with state in it (`node`), the management protocol (`management`). `mutate` changes inputs as TLV, `engine`
joins a target with Atheris (libFuzzer), `minimise` shrinks what it finds, and `bugs` are those that it must
find. `python -m testbed.fuzz --help`.
"""
