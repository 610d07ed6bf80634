"""What names, types and templates mean: C++ types, records, overloads, constants."""
