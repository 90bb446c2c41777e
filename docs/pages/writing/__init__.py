"""Text and figures of the pages: `markdown` fills templates and writes tables, `figures` draws."""
