"""Sums held to a level for each entity, where rows name several: Lipschitz extensions of COUNT and SUM over joins."""
