"""Doubles of file systems and disks, servers of real stores, and the contract of them all."""
