"""What clients ask of PostgreSQL's system catalogue, answered from the policy."""
