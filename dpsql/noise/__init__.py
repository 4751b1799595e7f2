"""Noise: seven primitives, each with the theorem that it rests on, and the samplers below them.

`integer` noise on sums, `choice` among scores, `sparse_vector`, `key_selection`, `smooth` noise, `partition` and `tree`. A
primitive is given integers, how far they move with an entity, and a source of randomness; what is measured stands in
`measurements`.
"""
