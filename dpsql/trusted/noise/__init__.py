"""Noise: seven primitives, each with the theorem it rests on, and the samplers they use.

`integer` noise on sums, `choice` among scores, `sparse_vector`, `key_selection`, `smooth` noise, `partition` and `tree`. A
primitive takes integers, their sensitivity to one entity, and a source of randomness; `measurements` defines what is measured.
"""
