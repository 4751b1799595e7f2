"""What measurements share: their interface, and how they read cells, ranks, and facts about the rows."""
