"""Every way to look at private rows: one file for each kind of request."""
