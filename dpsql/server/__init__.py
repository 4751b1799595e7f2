"""A server that speaks the protocol of PostgreSQL, so that analysts ask from the clients that they have.

`wire` is one client's socket, `listening` all of them; a `Seat` is one analyst's connection behind them. The wire knows bytes and
no SQL but the words of transactions; a seat knows SQL and no bytes. All of that runs in a process of its own, the front. The
`vault` is the process that holds the rows and the ledger, and believes nothing of what the front says.
"""
