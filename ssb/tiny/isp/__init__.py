"""tinyISP: clients of a provider exchange feeds with each other through it (J. Heisch, "tinyISP", 2023).

`messages` has its commands, `contract` what client and provider have between them: a pair of control feeds
and, in `lines`, a line of data feeds in each direction. `provider` and `client` are the two programs, `party`
what they share; `switch` passes entries from line to line, `exchange` is what a client sends and receives.
`reach` is how providers find clients of others, `evidence` what is signed and held against who breaks rules.
"""
