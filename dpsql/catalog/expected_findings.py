"""Findings of `check --rows` that the owner may have intended, by their word in a policy."""

EXPECTED = {
    "repeated": "rows that share a key", "nobody": "rows that belong to nobody", "unread": "cells that are not of their type",
    "wide": "bounds far wider than the values", "outside": "values outside of those declared", "rules": "rows that break a rule",
    "nulls": "NULL in a key, a foreign key or a column declared free of it", "spelling": "values that are nearly declared ones",
    "limit": "rows beyond rows_per_entity, or one far above all", "several": "several rows of one entity in its own table",
    "dangling": "foreign keys that reference no row", "few": "few entities", "lines": "lines with too few or too many cells",
}
