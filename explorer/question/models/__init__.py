"""Where models come from by name: an installed library, a file of Python; and files that hold no graph."""
