"""Is a synthetic table good enough for a query? Private deciders."""
