"""The command `pypto`: what the package can do, from a shell."""
