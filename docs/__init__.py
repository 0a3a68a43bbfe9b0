"""The pages of the documentation, made of texts, notebooks and docstrings; `make docs` makes a site of them."""
