"""A marketplace that makes logs, answers policies with clicks, and knows the truth."""
