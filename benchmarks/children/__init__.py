"""Programs that are run in processes of their own: `python -m benchmarks.children.NAME`; each prints one line of JSON."""
