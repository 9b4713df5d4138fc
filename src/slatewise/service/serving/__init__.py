"""From a request to a slate: models, items, users and popularity as they are now."""
