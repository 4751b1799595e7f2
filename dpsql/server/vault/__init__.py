"""The vault: the process that holds the rows, the ledger and the users, and serves accounts to the front. Trusted."""
