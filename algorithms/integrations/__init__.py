"""Other libraries' trainers on this project's boards and networks."""
