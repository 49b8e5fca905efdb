"""What a file makes a reader's browser load or run, decided on the output of parsers; doubt counts as loaded."""
