"""What a page does with each message of its browser and each event of its jobs, in files by subject."""
