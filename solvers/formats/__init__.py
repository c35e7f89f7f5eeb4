"""Files in and out: our own graph.json and plan.json, and the field's."""
