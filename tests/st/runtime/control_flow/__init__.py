"""Numerical tests of branches and loops."""
