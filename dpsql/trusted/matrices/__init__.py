"""Linear queries over a table of cells, as matrices that are never written out."""
