"""Synthetic tables: which marginals of a private table are measured, the model fitted to them, and the rows drawn from it."""
