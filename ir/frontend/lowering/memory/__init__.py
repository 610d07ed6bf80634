"""Lowering what lies in memory: pointers, places, records, copies of whole objects."""
