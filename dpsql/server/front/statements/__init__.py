"""From the text of a statement to its outcome, for one analyst's connection; its session is one of calls to the vault."""
