"""What to measure so that the queries of a workload can be answered best."""
