"""The server under many pages and hostile ones, and the one that others reach: over real sockets."""
