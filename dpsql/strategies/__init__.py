"""Search for strategies: what to measure so that the queries of a workload are answered with the least error."""
