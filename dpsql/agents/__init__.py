"""Programs built on language models ask by the Model Context Protocol: they get what an analyst of the same account gets.

No code here sees a private row. Every tool is a call of a `dbapi.Connection`, so the same kernel, ledger, budgets and refusals
decide. What is added only refuses more (`price_limits`) or records more (`purposes`).
"""
