"""Every rewrite rule, in the order in which they are applied to a statement.

To add one: a file with a function that is named by a verb phrase and decorated with `@rule`, or with `@rule_about` the operators
that it changes; one line here; and a call at the right stage of planning: the first three run while FROM and WHERE are bound
(`sql.binding`), the others when rows are limited (`planning.bounded_view`, `planning.frequency_limits`).
"""

from __future__ import annotations

from dpsql.questions.rules.keep_first import keep_first
from dpsql.questions.rules.keep_marks import keep_marks
from dpsql.questions.rules.limit_in_periods import show_periods
from dpsql.questions.rules.limit_keys import limit_keys
from dpsql.questions.rules.limit_rows import keep_rows, limit_rows
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.questions.rules.push_equalities import push_equalities
from dpsql.questions.rules.push_filters import push_filters

RULES = (
    push_equalities,  # equalities in WHERE become join conditions
    keep_marks,       # WHERE x IN (list) keeps the rows with one mark
    keep_first,       # WHERE row_number <= n limits the rows of each key
    prune_columns,    # columns that nothing reads are dropped
    push_filters,     # conditions are tested before rows are limited
    limit_rows,       # the rows of each entity are limited where a table is read
    keep_rows,        # or in the view that is asked about
    limit_keys,       # the rows of each value of a join key are limited
    show_periods,     # the period of each row of a growing table is a column
)
