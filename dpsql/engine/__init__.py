"""From the text of a statement to its answer, for each kind of statement. Start reading at `answering`."""
