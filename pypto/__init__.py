"""PyPTO: a compiler for tile kernels written in Python.

`import pypto.language as pl` is what kernels use; this module resolves its own public names on first use, so that
importing the language loads nothing else.
"""
