"""A server for analysts who connect with clients of PostgreSQL, over HTTP, or in a browser. It is two processes:

* the *vault* (`vault/`) holds the rows, the ledger and the users, and believes nothing that the front says;
* the *front* (`front/`) parses and plans what analysts send, and holds no rows.

`link/` is what the two say to each other, `walls/` shuts the front in, and `start/` begins both: `start/serving.py` first. To
follow a statement through the front, read `front/wire/wire.py` (bytes, no SQL), `front/statements/seat.py` (SQL, no bytes) and
`front/statements/remote_session.py`, whose calls `vault/vault.py` answers.
"""
