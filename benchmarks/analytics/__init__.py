"""What counting visitors exactly costs."""
