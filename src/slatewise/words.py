"""Words for numbers, for messages and tables."""


def counted(number: int, what: str) -> str:
    """Return a number of things, such as '1 day' or '2,000 days'."""
    return f"{number:,} {what}{'s' * (number != 1)}"
