"""How each study is shown: one module a study, named after it."""
