"""What members of a group exchange as they run a model together."""
