"""The documentation: its pages, `conf.py` for the site, and `pages/`, which writes what is generated."""
