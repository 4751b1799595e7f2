"""Shared by measurements: their interface, and how they read cells, ranks, and facts about the rows."""
