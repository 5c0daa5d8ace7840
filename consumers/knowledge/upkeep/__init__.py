"""What is done to whole bases, and to many documents at once."""
