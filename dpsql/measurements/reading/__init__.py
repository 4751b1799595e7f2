"""What measurements have in common, and what they read: cells, ranks, what is known of the rows."""
