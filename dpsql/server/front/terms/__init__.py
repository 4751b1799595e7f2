"""Answers in PostgreSQL's terms: columns, types, values as bytes, COPY, errors."""
