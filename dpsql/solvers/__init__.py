"""Solvers, which propose points, prices, flows and cuts. Nothing here is trusted: `dpsql.trusted.extensions` checks each answer
in integers."""
