"""What measurements read: cells, ranks, what is known of the rows."""
