"""What readers send besides page views: feedback, searches and questions. Kept in the main database."""
