"""Logs people bring, the dataset that training reads, and the way from one to the other."""
