"""What several families of passes use, and where raising and lowering meet."""
