"""The studies of the paper: what is run, what is kept, and what follows from the numbers."""
