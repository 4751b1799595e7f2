"""What the owner declares, as the kernel takes it: names, tables, and the limits of accounts."""
