"""Raising: SPMD form -> parallel form, by a cheap guess and an exact check.

``coordinates`` recognises the thread-to-work map, ``loops`` strided loops, ``block`` the code of one block with its
reductions, ``grid`` puts the block loops around it, ``check`` compares the guess with the source in the interpreter.
"""
