"""What holds of the repository as a whole: its pages, its examples, its words, its wheel."""
