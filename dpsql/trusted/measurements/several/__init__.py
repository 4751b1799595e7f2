"""Measurements of rows that belong to several entities each."""
