"""The operators of a plan: each file one relation, with the proof of how far one entity moves it.

To add one: a file with a frozen class of `fields` (its columns), `inputs`, `stability` (its proof stands in the docstring of the
class), `max_frequencies` where some are known, `render` and `label`. It is not believed: its fields and columns are
listed in `kernel.shapes`, its rule is a function in `kernel.checker`, both written from the proof alone, and the kernel runs no
plan on which the two disagree. What makes one is a rule (`plan.rules`) or the binding of a clause (`sql.binding`).
"""
