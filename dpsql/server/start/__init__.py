"""How a server begins: the vault is the process that `dpsql serve` runs in, and it starts the front."""
