"""The HTTP server. Each handler parses the request, makes one call and renders the response."""
