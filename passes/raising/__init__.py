"""Raising: SPMD form -> parallel form, by a cheap guess and an exact check.

``recognise`` finds the thread-to-work map (``coordinates``), strided loops, the code of one block with its reductions
(``block``), what threads exchange, and puts the block loops around it (``grid``); ``normalise`` makes programs plain
before and after; ``staging`` takes hand-made tiles away; ``check`` compares the guess with the source in the
interpreter.
"""
