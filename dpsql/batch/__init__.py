"""Many linear queries at once: one measurement, consistent answers."""
