"""The vector environment in each form of observation and mask, against another commit's."""
