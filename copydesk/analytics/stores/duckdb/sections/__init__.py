"""Sections below the first level: counting their visitors from visits, and adding them to the index."""
