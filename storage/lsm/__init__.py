"""The tree algorithms, pure: sorted runs, sections, merging, bin packing.

New merge engine: its name in `spec/merge_spec.py`, its options in `spec/merge_option_rows.py` and
`merge_options.py`, a file in `merge_engines/` and a case in its `factory.py`. `grep MergeEngine.`
finds what treats engines apart, but for the name in `platform/tables/open_declared.py`.
"""
