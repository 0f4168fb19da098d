"""tinyISP providers and their clients in one radio cell: `feednet simulate tiny`.

A seed makes a story (`story`): what the medium is like, who subscribes, sends, leaves and comes again, who is
killed when, who sleeps, and who is hostile. `world` plays it with real nodes, and checks all the time that

- what a contact reads is what was sent, each entry once and in order,
- no side stores more for a contract than its terms bound,
- nobody honest is accused,

and in the end, soon after the last fault, that

- everything was read that had to be: all that was sent to a client that has not left,
- contracts stand on both sides, or on neither,
- nothing is left of what is over: no feed, no secret, no record.

`ledger` has these checks, `members` and `hostile` the nodes: those that are killed, and hostile ones.
Deliberate bugs stand in `tests/mutants/tiny.py`.
"""
