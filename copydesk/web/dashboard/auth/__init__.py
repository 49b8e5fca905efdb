"""Signing in: sessions, cookies, CSRF tokens, OpenID Connect."""
