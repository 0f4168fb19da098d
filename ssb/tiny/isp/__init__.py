"""tinyISP: clients of a provider exchange feeds with each other through it (J. Heisch, "tinyISP", 2023).

`messages` has its commands, `contract` the link between client and provider: a pair of control feeds and, in
`lines`, a line of data feeds in each direction. `provider` and `client` are the two programs, `party` their
common base; `switch` forwards entries between lines, `exchange` sends and receives a client's entries.
`reach` announces clients between providers, `evidence` has signatures and proofs of misbehaviour.
"""
