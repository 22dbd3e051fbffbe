"""Numerical tests of operators."""
