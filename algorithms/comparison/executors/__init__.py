"""Who runs the cells of a grid: processes on this machine, or a Ray cluster."""
