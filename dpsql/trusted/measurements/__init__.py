"""The measurements of private rows: in each file an exact integer function, its proven sensitivity, and a noise primitive.

A mechanism yields measurements; the kernel derives the certificate of each from its plans, computes its `cost`, charges it,
and answers with `release`. These classes are the only ways to read private rows: a privacy reviewer reads this folder,
`noise`, the operators and `kernel`. Measurements of rows that belong to several entities each are in `several`.

To add one, write a file with a frozen class. Its fields describe what may be requested: each annotation gives a class and, for
numbers, a range (`field_types`); `assumptions` says what the proof assumes of several fields together. The kernel checks
these before the charge. Three members follow: `plans` (what is read), `cost` (with the proof; it raises ValueError where a
certificate does not bound what the proof needs) and `release` (the exact function and the noise primitive). List the class in
`all_measurements`, and add it to the neighbour tests, the audit, the forged requests and the planted faults. New noise
primitives belong in `noise`.
"""
