"""Folding in the DuckDB store: visits in sorted files, and the index of visitors that is counted from them."""
