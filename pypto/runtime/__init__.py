"""What happens around a finished C source: identity, storage, compiling, loading, launching.

Plain data comes in (a canonical record, source texts, arrays), artifacts and calls go out.  Nothing here knows the IR.
Importing this package loads nothing; a warm look-up loads only what `store` and `load` name at their top.
"""
