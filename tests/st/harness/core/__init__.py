"""Older module paths of the harness."""
