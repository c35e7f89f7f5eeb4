"""How long a draft takes and what it holds, estimated without making a plan of it."""
