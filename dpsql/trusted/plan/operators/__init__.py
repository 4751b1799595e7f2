"""The operators of a plan: each file defines one relation, with the proof of its stability.

To add one: a file with a frozen class of `fields` (its columns), `inputs`, `stability` (its proof stands in the docstring of the
class), `max_frequencies` where some are known, `render` and `label`. Its claims are not trusted: list its fields and columns
in `kernel.shapes`, and write its rule in `kernel.checker`, both from the proof alone; the kernel runs no plan on which the two
disagree. Operators are created by a rule (`questions.rules`) or by binding a clause (`sql.binding`).
"""
