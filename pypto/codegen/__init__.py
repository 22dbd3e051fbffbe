"""Generators: final programs to text for a compiler or an assembler."""
