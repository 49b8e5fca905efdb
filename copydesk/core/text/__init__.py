"""Functions on text that every part uses: redaction, truncation, validation of names, Unicode normalization."""
