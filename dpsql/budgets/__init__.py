"""What declared budgets allow, what statements may spend of them, and reports."""
