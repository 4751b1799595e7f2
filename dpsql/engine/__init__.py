"""The river: statements from text to answer, by kinds. `answering` is where to begin."""
