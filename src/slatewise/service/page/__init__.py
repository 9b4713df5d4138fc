"""The page for people: plain modules and styles, served as they are by `http.routes.page`."""
