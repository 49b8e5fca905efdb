"""Sign-in: sessions, cookies, CSRF tokens and OpenID Connect."""
