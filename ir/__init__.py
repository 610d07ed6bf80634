"""The program being compiled: types, nodes, text form, verifier, analyses, interpreter and the C++ front-end."""
