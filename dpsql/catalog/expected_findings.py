"""Findings of `check --rows` that the owner may have intended, by their word in a policy."""

EXPECTED = {
    "repeated": "rows that share a key", "nulls": "NULL in a key, a foreign key or a column declared free of it",
    "dangling": "foreign keys that reference no row", "several": "several rows of one entity in its own table",
    "few": "few entities", "nobody": "rows that belong to nobody", "limit": "rows beyond rows_per_entity, or one far above all",
    "wide": "bounds far wider than the values", "outside": "values outside of those declared",
    "spelling": "values that are nearly declared ones",
    "unread": "cells that are not of their type", "lines": "lines with too few or too many cells",
}
