"""The operators and expressions of the plans through which private rows are read, and how far one entity can move their
results."""
