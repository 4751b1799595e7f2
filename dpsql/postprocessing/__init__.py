"""SQL over released rows: the inner queries of a statement are released, and its outer SQL only computes with their numbers, so
that it costs nothing (post-processing).

`released_parts` cuts the statement, `around_released` and `around_binder` bind the outer SQL over tables that stand for the
released parts, and `around_rows` computes its answer, with the errors of `carried_errors`. `engine/around_statements.py` charges
the parts.
"""
