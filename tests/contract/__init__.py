"""One utility: every part of a model means the same to every consumer."""
