"""What searches pay for an estimate, a pass or a latency, beside the evaluation of the same plan."""
