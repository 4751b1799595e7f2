"""Lipschitz extensions of COUNT and SUM over joins whose rows name several entities."""
