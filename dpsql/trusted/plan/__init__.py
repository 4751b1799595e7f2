"""The operators and expressions of plans that private rows are read by, and how far one entity can move their results."""
