"""tinyISP providers and their clients in one radio cell: `feednet simulate tiny`.

A seed makes a story (`story`): the medium, subscriptions, messages, departures and returns, kills, sleeping
and hostile nodes. `world` plays it with real nodes, and checks all the time that

- a contact reads what was sent, each entry once and in order,
- no side stores more for a contract than its terms allow,
- nobody honest is accused,

and in the end, soon after the last fault, that

- everything sent to clients that have not left was read,
- contracts stand on both sides, or on neither,
- ended contracts leave no feed, secret or record.

`ledger` has these checks, `members` and `hostile` the nodes: killed ones, and hostile ones. Deliberate bugs
are in `tests/mutants/tiny.py`.
"""
