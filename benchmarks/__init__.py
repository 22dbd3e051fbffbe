"""Speed of compiled kernels, beside other tools, C written by hand, and what the machine can do: `python -m benchmarks`."""
