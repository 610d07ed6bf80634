"""Memory in the interpreter: buffers, accesses, atomics, copies in flight, textures."""
