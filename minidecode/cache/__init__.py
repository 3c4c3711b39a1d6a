"""What a row may attend to: a kind of key/value cache a file, and what they share. No forward pass, no search."""
