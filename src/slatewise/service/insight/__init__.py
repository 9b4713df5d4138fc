"""What people look at: a map of items, slates to try, what was learned, and when."""
