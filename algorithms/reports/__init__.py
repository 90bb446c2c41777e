"""Run folders in, statistics, figures and pages out: reads files only, no torch and no chess."""
