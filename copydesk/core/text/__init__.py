"""Functions on text that every part uses: redaction and Unicode normalization."""
