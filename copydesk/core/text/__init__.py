"""Functions on text that every part uses: redaction and Unicode's normal forms."""
