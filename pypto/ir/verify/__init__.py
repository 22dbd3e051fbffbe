"""Judges of program properties; none of them imports a pass."""
