"""On-chip memory: which space a value must be in, how long it lives, and where it is put."""
