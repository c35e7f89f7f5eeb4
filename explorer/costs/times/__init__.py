"""Times of operators by what they do, whichever model they are of: measured, kept in files, and applied to others."""
