"""(Desired, Snapshot, Memory, now) → Plan. Pure."""
