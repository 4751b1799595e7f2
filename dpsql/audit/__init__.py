"""Is the promise true? Tools for whoever wants to see the engine do what it says. Nothing here is reached from a connection."""
