"""The server: callbacks, the live connection, the backend that starts jobs, and what keeps it safe."""
