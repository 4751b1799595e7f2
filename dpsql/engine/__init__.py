"""Statements from text to answer, by kind. Start reading at `answering`."""
