"""What ``precast build --watch`` watches: the files that a plan and its variants were made of, and their changes."""
