"""The front: the process that parses what analysts send, and plans it. It holds no rows, and nothing in it is trusted."""
