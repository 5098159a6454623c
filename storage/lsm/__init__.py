"""The tree algorithms, pure: sorted runs, sections, merging, bin packing."""
