"""What readers send besides page views: feedback, searches, and questions to an assistant. Kept in the main database."""
