"""Stores feedback, searches and questions of readers in the main database."""
