"""Tools to check that the engine keeps its promise of privacy. None of them can be reached from a connection."""
