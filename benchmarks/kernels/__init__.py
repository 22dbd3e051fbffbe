"""The kernels that are measured: ordinary programs, tiled by hand into blocks that fit into on-chip memory."""
