"""Which devices stages run on, so that little crosses between nodes."""
