"""A server that speaks the protocol of PostgreSQL, so that analysts ask from the clients that they have.

`wire` is one client's socket, `listening` all of them; a `Seat` is one analyst's connection behind them. The wire knows bytes
and no SQL but the words of transactions; a seat knows SQL and no bytes. Nothing here is trusted for privacy: a seat asks as
any caller does.
"""
