"""How long a draft takes and what it holds, told without making a plan of it."""
