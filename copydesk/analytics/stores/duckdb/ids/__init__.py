"""The numbers of projects, scopes and rules in a store."""
