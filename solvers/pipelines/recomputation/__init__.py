"""Which operators of a stage keep what they save, and which run again before their backward: chosen, with a bound."""
