"""What a client may ask of the server before anything is known of it: connections, headers, bodies, and their time."""
