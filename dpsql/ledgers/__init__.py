"""Beside the kernel's ledger: its store in PostgreSQL, facts of files that it vouches for, and reports."""
