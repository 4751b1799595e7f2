"""Graphical models of the columns of a table, fitted to noisy marginals that are already released. Nothing here sees rows."""
