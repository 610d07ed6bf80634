"""What the IR's classes are built with: frozen dataclasses, memos, grammars, the cycle collector at rest."""
