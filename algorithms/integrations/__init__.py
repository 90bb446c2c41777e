"""Other libraries' trainers on this project's boards, network and record."""
