"""The front over PostgreSQL's protocol: listening, logging in, messages; and the limits of a server, which HTTP shares."""
