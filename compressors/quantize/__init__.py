"""What is said about an entry that travels: values to symbols and back."""
