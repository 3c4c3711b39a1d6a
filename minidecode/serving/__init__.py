"""Many requests at once: rows that join and leave a running batch, a scheduler, and a server of OpenAI's interface."""
